"""
The real indexer and the real retrieve path, over a labelled question set.

Nothing is traced, and nothing but the working folder is written.
"""

import datetime
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs_rag import __version__
from docs_rag.cases import Case
from docs_rag.config import load_settings
from docs_rag.embedders import embedder_for
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import EmbeddingError
from docs_rag.indexer import index_corpus
from docs_rag.metrics import (
    Rank,
    bootstrap_interval,
    mean,
    mean_reciprocal_rank,
    ndcg,
    percentile,
    recall_at,
)
from docs_rag.records import EmbeddingBatch, Match, Purpose
from docs_rag.resident import ResidentVectors
from docs_rag.retrieval import Retriever, ask

DEPTHS = (1, 3, 5, 10)
PASSAGE_DEPTH = 5
# The setting that answers by words alone.
WORDS = "words"
# No question with all its phrasings is as many texts as the calibration asks at once.
_CALIBRATION_BATCH = 50
# Text is not the question here: let no hit fall out for its length.
_MAX_CHARS = 1_000_000


class _Silent(StubEmbedder):
    """Embeds the corpus and no question, as a model does that is gone by then."""

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """Fail for whatever is asked after calibration: one question at a time."""
        if purpose is Purpose.QUERY and len(texts) < _CALIBRATION_BATCH:
            raise EmbeddingError("this setting has no meaning, only words")
        return StubEmbedder.embed(self, texts, purpose)


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What one question came to.

    ``rank`` is the place of the first right page among the distinct pages returned;
    ``passage`` says whether the evidence stands in one of the first five passages, None
    where the question names none.
    """

    case: Case
    rank: Rank
    paths: tuple[str, ...]
    passage: bool | None
    gain: float
    match: Match
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """One setting measured over one question set, with all that names it."""

    name: str
    corpus: str
    commit: str
    model: str
    version: str
    date: str
    files: int
    chunks: int
    index_seconds: float
    embedded: int
    load: float
    verdict: Mapping[str, object]
    outcomes: tuple[Outcome, ...]

    def families(self) -> dict[str, list[Outcome]]:
        """Return the answerable questions by family, and all of them together."""
        grouped: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in self.outcomes:
            if outcome.case.is_answerable:
                grouped[outcome.case.family].append(outcome)
        return {**grouped, "all": [o for o in self.outcomes if o.case.is_answerable]}

    def off(self) -> list[Outcome]:
        """Return the questions that the corpus does not answer."""
        return [o for o in self.outcomes if not o.case.is_answerable]


def measure(
    name: str,
    environ: Mapping[str, str],
    cases: Sequence[Case],
    k: int,
    say: Callable[[str], None],
) -> Run:
    """
    Index the corpus that ``environ`` chooses and ask it every question.

    ``environ`` are docs-rag's own variables: RAG_DIR, RAG_CORPUS, RAG_EMBED_BACKEND …
    """
    words_only = environ.get("RAG_EMBED_BACKEND") == WORDS
    settings = load_settings(
        {**environ, "RAG_EMBED_BACKEND": "stub"} if words_only else environ
    )
    corpus = settings.chosen()
    embedder = _Silent() if words_only else embedder_for(settings)
    say(f"{name}: indexing {corpus.name}")
    report = index_corpus(corpus, embedder)
    retriever = Retriever(
        corpus.name, corpus.directory, corpus.index_path, embedder, ResidentVectors()
    )
    try:
        retriever.warm_up()
        outcomes = tuple(_ask(retriever, case, k) for case in cases)
        status = retriever.status()
    finally:
        retriever.close()
    say(f"{name}: asked {len(outcomes)} questions")
    return Run(
        name=name,
        corpus=corpus.name,
        commit=status.commit or _commit_of(corpus.directory),
        model=WORDS
        if words_only
        else f"{embedder.identity.backend}:{embedder.identity.model}",
        version=__version__,
        date=datetime.date.today().isoformat(),
        files=status.files,
        chunks=status.chunks,
        index_seconds=report.seconds,
        embedded=report.embedded,
        load=os.getloadavg()[0],
        verdict=status.verdict,
        outcomes=outcomes,
    )


def _ask(retriever: Retriever, case: Case, k: int) -> Outcome:
    question = ask(case.query, k, case.also, _MAX_CHARS)
    started = time.perf_counter()
    answer = retriever.retrieve(question, even_if_none=True)
    milliseconds = (time.perf_counter() - started) * 1000
    paths = tuple(dict.fromkeys(hit.path for hit in answer.hits))
    right = [path in case.expected for path in paths]
    passage = None
    if case.evidence:
        passage = any(
            case.evidence.get(hit.path, "\0") in hit.text
            for hit in answer.hits[:PASSAGE_DEPTH]
        )
    return Outcome(
        case=case,
        rank=right.index(True) + 1 if True in right else None,
        paths=paths,
        passage=passage,
        gain=ndcg(right, len(case.expected)),
        match=answer.match,
        milliseconds=milliseconds,
    )


def _commit_of(directory: Path) -> str:
    command = ["git", "-C", str(directory), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the numbers of a group of answerable questions."""
    ranks = [outcome.rank for outcome in outcomes]
    passages = [o.passage for o in outcomes if o.passage is not None]
    return {
        "questions": len(outcomes),
        **{f"recall@{k}": recall_at(ranks, k) for k in DEPTHS},
        "mrr": mean_reciprocal_rank(ranks),
        "ndcg@10": mean([outcome.gain for outcome in outcomes]),
        f"passage@{PASSAGE_DEPTH}": mean([float(passage) for passage in passages]),
        "false_none": share(outcomes, Match.NONE),
        "strong": share(outcomes, Match.STRONG),
    }


def intervals(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    """Return 95 % bootstrap intervals of recall@1 and of the reciprocal rank."""
    first = [float(outcome.rank == 1) for outcome in outcomes]
    inverse = [1 / outcome.rank if outcome.rank else 0.0 for outcome in outcomes]
    return {"recall@1": bootstrap_interval(first), "mrr": bootstrap_interval(inverse)}


def share(outcomes: Iterable[Outcome], match: Match) -> float:
    """Return the share of questions that got this verdict."""
    return mean([float(outcome.match is match) for outcome in outcomes])


def off_summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return how questions without an answer were treated."""
    return {
        "questions": len(outcomes),
        "none": share(outcomes, Match.NONE),
        "weak": share(outcomes, Match.WEAK),
        "false_strong": share(outcomes, Match.STRONG),
    }


def latency(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the milliseconds that half, and nineteen in twenty, questions took."""
    times = [outcome.milliseconds for outcome in outcomes]
    return {"p50_ms": percentile(times, 0.5), "p95_ms": percentile(times, 0.95)}
