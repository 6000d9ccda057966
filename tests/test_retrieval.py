"""Questions and answers: bounds, verdicts, freshness, and words when vectors fail."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import lay_out, make_corpus

from docs_rag.config import Corpus
from docs_rag.embedding import BuiltinEmbedder, StubEmbedder
from docs_rag.errors import (
    EmbeddingError,
    IndexMissingError,
    QueryError,
    TextRefusedError,
)
from docs_rag.indexer import IndexOptions, index_corpus
from docs_rag.records import (
    Answer,
    Capacity,
    EmbeddingBatch,
    Match,
    ModelIdentity,
    Purpose,
)
from docs_rag.resident import ResidentVectors
from docs_rag.retrieval import MAX_QUERY_CHARS, Retriever, ask
from docs_rag.vectors import DiskVectors

SHIP = {
    "docs/anchor.md": (
        "# Anchor\n\nLet go the anchor in mud or sand, never on bare rock.\n\n"
        "## Scope\n\nPay out seven times the depth of the water as chain.\n"
    ),
    "docs/bilge.md": (
        "# Bilge pump\n\nRun the pump with `--drain-fast` until the float drops.\n\n"
        "Error E0502 means that the strainer is blocked by weed.\n"
    ),
    "docs/paint.md": (
        "# Paint\n\nScrape, prime, and give the hull two coats of green paint.\n\n"
        "The tin of `std::vector<Primer>` is kept beside 防锈漆 in the forepeak.\n"
    ),
    "docs/rigging.md": (
        "# Rigging\n\nTar the shrouds each spring and check every seizing by hand.\n"
    ),
}


@pytest.fixture(scope="module")
def ship(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = make_corpus(tmp_path_factory.mktemp("ship"), SHIP)
    index_corpus(corpus, StubEmbedder())
    return corpus


@pytest.fixture
def opened() -> Iterator[Callable[..., Retriever]]:
    retrievers: list[Retriever] = []

    def open_it(corpus: Corpus, embedder: Any = None, engine: Any = None) -> Retriever:
        retrievers.append(
            Retriever(
                corpus.name,
                corpus.directory,
                corpus.index_path,
                embedder or StubEmbedder(),
                engine or DiskVectors(),
            )
        )
        return retrievers[-1]

    yield open_it
    for retriever in retrievers:
        retriever.close()


def shown(answer: Answer) -> list[str]:
    return [hit.path for hit in answer.hits]


class BrokenEmbedder(StubEmbedder):
    """The stub of an endpoint that no longer answers."""

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        raise EmbeddingError("http://127.0.0.1:9/v1 does not answer")


class OtherEmbedder(StubEmbedder):
    """The stub under another name and width: another vector space."""

    @property
    def identity(self) -> ModelIdentity:
        return dataclasses.replace(super().identity, model="other")

    def probe(self) -> Capacity:
        return Capacity(dimension=128, window=None)

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        vectors = super().embed(texts, purpose).vectors[:, :128] + 1e-3
        norms = (vectors**2).sum(axis=1, keepdims=True) ** 0.5
        return EmbeddingBatch(vectors / norms)


QUERIES = {
    "how deep should I anchor in mud": "docs/anchor.md",
    "--drain-fast": "docs/bilge.md",
    "E0502": "docs/bilge.md",
    "std::vector<Primer>": "docs/paint.md",
    "防锈": "docs/paint.md",
    "tar the shrouds": "docs/rigging.md",
}


@pytest.mark.parametrize(("query", "path"), QUERIES.items(), ids=list(QUERIES))
def test_the_page_that_answers_comes_first(
    ship: Corpus, opened: Callable[..., Retriever], query: str, path: str
) -> None:
    """Questions, flags, error codes, template types and two-character words hit."""
    assert shown(opened(ship).retrieve(ask(query), even_if_none=True))[:1] == [path]


def test_a_hit_can_be_cited(ship: Corpus, opened: Callable[..., Retriever]) -> None:
    """A hit gives path, heading, lines and a text that stands in those lines."""
    hit = opened(ship).retrieve(ask("seven times the depth of chain")).hits[0]
    lines = (ship.directory / hit.path).read_text().split("\n")

    assert hit.path == "docs/anchor.md"
    assert "Anchor" in hit.heading
    assert hit.text == "\n".join(lines[hit.first_line - 1 : hit.last_line])
    assert hit.id.startswith("docs-rag://demo/docs/anchor.md#")
    assert hit.ranks.vector and hit.ranks.words


@pytest.mark.parametrize("k", [1, 2, 4])
def test_k_bounds_the_hits(
    ship: Corpus, opened: Callable[..., Retriever], k: int
) -> None:
    """No answer has more than k hits."""
    question = ask("anchor pump paint shrouds", k=k)
    answer = opened(ship).retrieve(question, even_if_none=True)

    assert 1 <= len(answer.hits) <= k


@pytest.mark.parametrize("k", [0, -1, 21, 5000, 3.7, "5", None, True], ids=repr)
def test_k_out_of_range_is_an_error(k: Any) -> None:
    """k is a whole number from 1 to 20; anything else is refused by name."""
    with pytest.raises(QueryError, match="k must be a whole number from 1 to 20"):
        ask("anchor", k=k)


@pytest.mark.parametrize("query", ["", "  \n\t ", "\u200b", "\ufeff\u2060 "], ids=repr)
def test_an_empty_query_is_an_error(query: str) -> None:
    """A query with nothing to see in it is refused."""
    with pytest.raises(QueryError, match="query is empty"):
        ask(query)


def test_an_overlong_query_is_an_error() -> None:
    """A query beyond the limit is refused with both numbers."""
    with pytest.raises(QueryError, match="20001 characters, 20000"):
        ask("a" * (MAX_QUERY_CHARS + 1))


HARD_QUERIES = [
    '"',
    "'",
    "NEAR(anchor, 2)",
    "NOT anchor",
    "anchor OR",
    "AND",
    "title:anchor",
    "anchor*",
    "^anchor",
    "{anchor}",
    "(((",
    "anchor AND (pump OR",
    "#[derive]",
    "C++ & C#",
    "🦀🦀🦀",
    "\x00anchor\x00",
    "\ud800",
    "anchor " * 1400,
    "a" * 10_000,
    "潮" * 3000,
    "?" * 500,
    "don\u2019t -- drop; 'table'",
]


@pytest.mark.parametrize("query", HARD_QUERIES, ids=lambda query: repr(query[:20]))
def test_hard_queries_are_legal(
    ship: Corpus, opened: Callable[..., Retriever], query: str
) -> None:
    """Operators, quotes, brackets, emoji, NULs, surrogates and length do no harm."""
    answer = opened(ship).retrieve(ask(query), even_if_none=True)

    assert answer.match in Match
    if "anchor" in query:
        assert shown(answer)[0] == "docs/anchor.md"


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(query=st.text(min_size=1, max_size=200))
def test_any_string_is_a_legal_query(
    ship: Corpus, opened: Callable[..., Retriever], query: str
) -> None:
    """Any text with something to see in it gets an answer."""
    try:
        question = ask(query, k=3)
    except QueryError:
        return

    assert len(opened(ship).retrieve(question).hits) <= 3


@pytest.mark.parametrize(
    "engine", [ResidentVectors(), ResidentVectors(matrix_bytes=0)], ids=["all", "signs"]
)
def test_engines_answer_alike(
    ship: Corpus, opened: Callable[..., Retriever], engine: ResidentVectors
) -> None:
    """The server's engine, in either form, and the shell's give the same answers."""
    disk, resident = opened(ship), opened(ship, engine=engine)

    for query in QUERIES:
        one, other = disk.retrieve(ask(query)), resident.retrieve(ask(query))
        assert (one.match, shown(one)) == (other.match, shown(other))
        for left, right in zip(one.hits, other.hits, strict=True):
            assert left.similarity == pytest.approx(right.similarity, abs=1e-4)


def test_same_question_same_answer(
    ship: Corpus, opened: Callable[..., Retriever]
) -> None:
    """An answer depends on nothing but question and generation."""
    retriever = opened(ship)
    first, second = (
        retriever.retrieve(ask("green paint", also=["hull coats"])) for _ in "ab"
    )

    assert dataclasses.replace(first, facts={}) == dataclasses.replace(second, facts={})


def test_another_phrasing_finds_what_the_first_misses(
    ship: Corpus, opened: Callable[..., Retriever]
) -> None:
    """A phrasing in `also` takes its turn, and the caller's own keeps the first."""
    answer = opened(ship).retrieve(ask("green paint", also=["tar the shrouds"]))

    assert shown(answer)[:2] == ["docs/paint.md", "docs/rigging.md"]


def test_copies_take_one_place(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """Thirty copies of a page take one place, and k different passages still come."""
    copies = {f"docs/copy{i:02}.md": "The bosun pipes the side.\n" for i in range(30)}
    others = {
        f"docs/w{i}.md": f"Whistle {w} hangs by the bosun.\n"
        for i, w in enumerate(["brass", "horn", "bone", "oak"])
    }
    corpus = make_corpus(tmp_path, {**copies, **others})
    index_corpus(corpus, StubEmbedder())
    answer = opened(corpus).retrieve(ask("bosun", k=5), even_if_none=True)

    assert len({hit.text for hit in answer.hits}) == len(answer.hits) == 5
    copied = next(hit for hit in answer.hits if "pipes" in hit.text)
    assert len(copied.also_at) == 29


def test_a_changed_file_is_stale(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """A hit whose file changed since indexing says so; a touched one does not."""
    corpus = make_corpus(tmp_path, SHIP)
    index_corpus(corpus, StubEmbedder())
    retriever = opened(corpus)
    os.utime(corpus.directory / "docs/anchor.md", ns=(1, 1))
    assert not retriever.retrieve(ask("anchor mud")).hits[0].stale

    lay_out(corpus.directory, {"docs/anchor.md": "# Anchor\n\nSell it.\n"})
    answer = retriever.retrieve(ask("anchor mud"))
    assert answer.hits[0].stale
    assert "stale" in answer.notice


def test_a_removed_file_is_not_quoted(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """A file that is gone is dropped from answers before the next run, and named."""
    corpus = make_corpus(tmp_path, SHIP)
    index_corpus(corpus, StubEmbedder())
    (corpus.directory / "docs/anchor.md").unlink()
    answer = opened(corpus).retrieve(ask("anchor mud"), even_if_none=True)

    assert "docs/anchor.md" not in shown(answer)
    assert ("docs/anchor.md", "the file is gone since it was indexed") in [
        (omitted.path, omitted.reason) for omitted in answer.omitted
    ]


def test_an_unmounted_corpus_still_answers(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """Where the whole tree is away nothing is dropped, and the answer says so."""
    corpus = make_corpus(tmp_path, SHIP)
    index_corpus(corpus, StubEmbedder())
    (corpus.directory / "docs").rename(corpus.directory / "docs.away")
    answer = opened(corpus).retrieve(ask("anchor mud"))

    assert shown(answer)[0] == "docs/anchor.md"
    assert "not reachable" in answer.notice


@pytest.mark.parametrize(
    ("embedder", "reason"),
    [
        (BrokenEmbedder(), "does not answer"),
        (OtherEmbedder(), "stub:other"),
    ],
    ids=["endpoint down", "other model"],
)
def test_without_vectors_words_answer_and_say_so(
    ship: Corpus, opened: Callable[..., Retriever], embedder: Any, reason: str
) -> None:
    """No vector search: full text answers alone, and the notice gives the reason."""
    retriever = opened(ship, embedder)
    answer = retriever.retrieve(ask("never on bare rock"))

    assert shown(answer)[0] == "docs/anchor.md"
    assert "Semantic search is off" in answer.notice
    assert reason in answer.notice
    assert all(hit.similarity is None for hit in answer.hits)


def test_a_new_model_takes_over_when_all_is_embedded(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """A server for another model switches to it once the run has finished."""
    corpus = make_corpus(tmp_path, SHIP)
    index_corpus(corpus, StubEmbedder())
    retriever = opened(corpus, OtherEmbedder(), ResidentVectors())
    assert retriever.retrieve(ask("mud")).hits[0].similarity is None

    index_corpus(corpus, OtherEmbedder())
    answer = retriever.retrieve(ask("mud"))
    assert answer.hits[0].similarity is not None
    assert "off" not in answer.notice


@pytest.mark.parametrize("engine", [DiskVectors, ResidentVectors])
def test_a_new_generation_is_seen_without_reopening(
    tmp_path: Path, opened: Callable[..., Retriever], engine: Any
) -> None:
    """Files added, removed and rebuilt show in the next answer of an open retriever."""
    corpus = make_corpus(tmp_path, SHIP)
    index_corpus(corpus, StubEmbedder())
    retriever = opened(corpus, engine=engine())
    retriever.retrieve(ask("anchor"))
    lay_out(corpus.directory, {"docs/galley.md": "# Galley\n\nSalt the porridge.\n"})
    index_corpus(corpus, StubEmbedder())
    assert shown(retriever.retrieve(ask("salt porridge")))[0] == "docs/galley.md"

    (corpus.directory / "docs/galley.md").unlink()
    index_corpus(corpus, StubEmbedder(), IndexOptions(full=True))
    answer = retriever.retrieve(ask("salt porridge"), even_if_none=True)
    assert "docs/galley.md" not in shown(answer)
    assert [o.path for o in answer.omitted] == []


def test_without_an_index_the_error_says_how_to_make_one(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """Asking before the first run is an error that names the command."""
    retriever = opened(make_corpus(tmp_path, SHIP))

    with pytest.raises(IndexMissingError, match="docs-rag index"):
        retriever.retrieve(ask("anchor"))
    with pytest.raises(IndexMissingError, match="docs-rag index"):
        retriever.status()


def test_nonsense_is_no_match_and_listed(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """Made-up words get the verdict none: nothing quoted, the nearest listed."""
    corpus = make_corpus(tmp_path, SHIP)
    index_corpus(corpus, BuiltinEmbedder())
    retriever = opened(corpus, BuiltinEmbedder())
    answer = retriever.retrieve(ask("zzvok blenquar frimble tosk"))
    good = retriever.retrieve(ask("Which ground is good to let go the anchor?"))

    assert (answer.match, answer.hits) == (Match.NONE, ())
    assert answer.omitted
    assert good.match is not Match.NONE
    assert shown(good)[0] == "docs/anchor.md"


def test_status_says_what_the_index_holds(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """The status counts, names skips and unmatched entries, and all text is in."""
    corpus = make_corpus(tmp_path, {**SHIP, "docs/empty.md": ""}, roots=["docs", "nix"])
    report = index_corpus(corpus, StubEmbedder())
    status = opened(corpus).status()

    assert (status.files, status.chunks) == (5, report.chunks)
    assert [(s.path, s.reason) for s in status.skipped] == [("docs/empty.md", "empty")]
    assert any("nix" in entry for entry in status.unmatched_scope)
    assert status.vectors["text_share"] == 1.0
    assert status.embedding["semantic_search"] is True


def test_status_does_not_move_without_a_change(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """A run that finds nothing to do leaves counts, generation and time of change."""
    corpus = make_corpus(tmp_path, SHIP)
    index_corpus(corpus, StubEmbedder())
    retriever = opened(corpus)
    before = retriever.status()
    index_corpus(corpus, StubEmbedder())
    after = retriever.status()

    assert dataclasses.replace(after, checked_at=before.checked_at) == before


def test_a_text_outside_the_vectors_is_never_rounded_away(
    tmp_path: Path, opened: Callable[..., Retriever]
) -> None:
    """The share of text inside vectors is 1.0 only where all of it is inside."""
    tiny = {"docs/tiny.md": "xy\n"}
    big = {f"docs/b{i:02}.md": f"# P {i}\n\n" + f"word{i} " * 1500 for i in range(12)}
    corpus = make_corpus(tmp_path, {**tiny, **big})

    class Picky(StubEmbedder):
        """Refuses the one tiny page."""

        def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
            if purpose is Purpose.PASSAGE and "xy" in texts:
                raise TextRefusedError("refused", list(texts).index("xy"))
            return super().embed(texts, purpose)

    index_corpus(corpus, Picky())

    assert 0.9998 <= float(str(opened(corpus).status().vectors["text_share"])) < 1.0
