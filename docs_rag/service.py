"""
One corpus opened for questions: the retriever and the trace of every call.

Both doors, the MCP server and the shell, ask through here, so both are metered and
neither can answer otherwise than the other.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from docs_rag.config import Corpus, Settings
from docs_rag.embedders import embedder_for
from docs_rag.reading import Page
from docs_rag.records import Answer, CorpusStatus
from docs_rag.resident import ResidentVectors
from docs_rag.retrieval import Question, Retriever
from docs_rag.schema import StoredFile
from docs_rag.tracing import Caller, CallRecord, Tool, TraceWriter
from docs_rag.vectors import DiskVectors, VectorEngine


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls, and by which way; goes into the trace and nowhere else."""

    caller: Caller
    transport: str | None = None
    traceparent: str | None = None
    client_name: str | None = None
    client_version: str | None = None
    protocol_version: str | None = None


class Service:
    """Answers for one corpus and traces each call. Safe to share between threads."""

    def __init__(
        self, corpus: Corpus, retriever: Retriever, traces: TraceWriter, model: str
    ) -> None:
        self.corpus = corpus
        self._retriever = retriever
        self._traces = traces
        self._model = model
        self._warming = threading.Lock()
        self._is_warm = False

    def close(self) -> None:
        """Close the index."""
        self._retriever.close()

    def warm_up(self) -> None:
        """Load the model and the vectors ahead of the first question, once."""
        with self._warming:
            self._warm_up()

    def check_ready(self) -> int:
        """
        Return the generation; see ``Retriever.check_ready``.

        Loads what could not be loaded before, such as an index that was not there:
        where questions are only sent to a ready server, none would ever do it.
        """
        if self._warming.acquire(blocking=False):
            try:
                self._warm_up()
            finally:
                self._warming.release()
        return self._retriever.check_ready()

    def _warm_up(self) -> None:
        if not self._is_warm:
            self._retriever.warm_up()
            self._is_warm = True

    def retrieve(
        self,
        question: Question,
        context: CallContext,
        *,
        even_if_none: bool = False,
        explain: bool = False,
    ) -> Answer:
        """Answer and trace; see ``Retriever.retrieve``."""
        record = self._record(Tool.RETRIEVE, context)
        record = dataclasses.replace(
            record,
            query=question.query,
            also=question.also,
            k=question.k,
            model=self._model,
        )
        with self._traced(record) as finish:
            answer = self._retriever.retrieve(
                question, even_if_none=even_if_none, explain=explain
            )
            finish(_answered(record, answer))
            return answer

    def status(self, context: CallContext) -> CorpusStatus:
        """Report and trace; see ``Retriever.status``."""
        record = self._record(Tool.CORPUS_STATUS, context)
        with self._traced(record) as finish:
            status = self._retriever.status(self._traces.dropped)
            finish(dataclasses.replace(record, generation=status.generation))
            return status

    def read(self, address: str) -> Page:
        """Return what is at an address of this corpus; not traced, nothing is asked."""
        return self._retriever.read(address)

    def documents(self, after: str) -> list[StoredFile]:
        """Return the next documents in the order of paths."""
        return self._retriever.documents(after)

    def trace_refusal(self, tool: Tool, context: CallContext, error: Exception) -> None:
        """Trace a call that was refused before it was asked."""
        record = self._record(tool, context)
        self._traces.record(
            dataclasses.replace(record, error_type=type(error).__name__)
        )

    def _record(self, tool: Tool, context: CallContext) -> CallRecord:
        return CallRecord(
            tool=tool,
            latency_ms=0.0,
            **{f.name: getattr(context, f.name) for f in dataclasses.fields(context)},
        )

    @contextmanager
    def _traced(self, record: CallRecord) -> Iterator[Callable[[CallRecord], None]]:
        """Write one trace of the block, whether it finishes or fails."""
        finished: list[CallRecord] = []
        started = time.perf_counter()
        try:
            yield finished.append
        except BaseException as error:
            finished = [dataclasses.replace(record, error_type=type(error).__name__)]
            raise
        finally:
            latency_ms = (time.perf_counter() - started) * 1000
            self._traces.record(dataclasses.replace(finished[0], latency_ms=latency_ms))


def _answered(record: CallRecord, answer: Answer) -> CallRecord:
    tokens = answer.facts.get("input_tokens")
    return dataclasses.replace(
        record,
        hits=len(answer.hits),
        match=answer.match.value,
        generation=answer.generation,
        input_tokens=tokens if isinstance(tokens, int) else None,
        paths=tuple(dict.fromkeys(hit.path for hit in answer.hits)),
        answer_text="\n\n".join(hit.text for hit in answer.hits),
        facts={
            **answer.facts,
            "stale_hits": sum(hit.stale for hit in answer.hits),
        },
    )


def engine_for(settings: Settings, *, resident: bool) -> VectorEngine:
    """Return the vector engine: ``resident`` in memory, for a server."""
    if resident:
        return ResidentVectors(settings.vector_cache_mb * 1024 * 1024)
    return DiskVectors()


def open_service(settings: Settings, *, resident: bool) -> Service:
    """
    Open the chosen corpus; ``resident`` keeps its vectors in memory, for a server.

    Raises ``UnknownCorpusError`` where none is chosen. The index need not exist yet:
    it is looked for at each call.
    """
    corpus = settings.chosen()
    embedder = embedder_for(settings, for_one_question=not resident)
    retriever = Retriever(
        corpus.name,
        corpus.directory,
        corpus.index_path,
        embedder,
        engine_for(settings, resident=resident),
    )
    traces = TraceWriter(
        settings.trace_dir, corpus.name, content=settings.trace_content
    )
    return Service(corpus, retriever, traces, embedder.identity.model)
