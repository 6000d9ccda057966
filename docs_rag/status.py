"""
What state an index is in: how much it holds, how fresh, and which search is on.
"""

import math
from collections.abc import Sequence

from docs_rag.records import CorpusStatus, ModelIdentity, Skipped
from docs_rag.schema import Space
from docs_rag.store import Store
from docs_rag.vectors import EngineState, VectorEngine


def space_in_force(store: Store, identity: ModelIdentity) -> tuple[Space | None, str]:
    """Return the vector space to search, or None and the reason why there is none."""
    active = store.meta("active_space")
    space = store.space(identity.fingerprint)
    if space and space.id == active:
        return space, ""
    if active is None:
        return None, (
            "The first indexing run has not finished: only some files are there and "
            "semantic search is off. Run `docs-rag index` to the end."
        )
    return None, (
        f"Semantic search is off: the index was not built with the configured model "
        f"{identity.backend}:{identity.model}. Answers are by words only until "
        "`docs-rag index` has embedded the corpus with it."
    )


def corpus_status(
    store: Store,
    corpus: str,
    identity: ModelIdentity,
    space: Space | None,
    engine: VectorEngine,
    notices: Sequence[str],
    traces_dropped: int,
) -> CorpusStatus:
    """Read the state of an index from one snapshot."""
    skipped = [Skipped(*row) for row in store.meta("skipped", [])]
    state = engine.state(store, space) if space else EngineState(engine.name)
    told = (*notices, state.notice, *_unfinished(store), *_without_trigrams(store))
    return CorpusStatus(
        corpus=corpus,
        files=store.meta("files", 0),
        chunks=store.meta("chunks", 0),
        generation=store.generation,
        indexed_at=store.meta("indexed_at"),
        checked_at=store.meta("checked_at"),
        commit=store.meta("commit"),
        dirty=store.meta("dirty"),
        synced_at=store.meta("synced_at"),
        embedding=_embedding(identity, space),
        skipped=(*skipped, *store.files_without_text()),
        failed=tuple(store.files_without_vectors()),
        unmatched_scope=tuple(store.meta("unmatched_scope", [])),
        verdict=(store.meta("calibration") or {}).get("rates", {}),
        vectors=_vectors(store, space, state),
        traces_dropped=traces_dropped,
        notices=tuple(filter(None, told)),
    )


def _unfinished(store: Store) -> list[str]:
    files = store.meta("unfinished", 0)
    if not files:
        return []
    return [
        f"The last indexing run was interrupted with {files} files to go; run "
        "`docs-rag index` to finish it."
    ]


def _without_trigrams(store: Store) -> list[str]:
    if store.has_trigrams():
        return []
    return [
        'Substring search is off for this corpus ("trigram": false in corpora.json, '
        "or no run since an upgrade): parts of words and names with signs are not "
        "found."
    ]


def _embedding(identity: ModelIdentity, space: Space | None) -> dict[str, object]:
    status: dict[str, object] = {
        "backend": identity.backend,
        "model": identity.model,
        "dimension": space.capacity.dimension if space else None,
        "window": space.capacity.window if space else None,
        "semantic_search": space is not None,
    }
    if identity.backend == "stub":
        status["warning"] = "the stub backend is for tests: it knows no meaning"
    return status


def _vectors(
    store: Store, space: Space | None, state: EngineState
) -> dict[str, object]:
    held, total = store.text_in_vectors(space.id if space else -1)
    return {
        "engine": state.name,
        "resident_bytes": state.resident_bytes,
        "count": store.live_vector_count(space.id) if space else 0,
        # Rounded down: 1.0 means all of it.
        "text_share": math.floor(10_000 * held / total) / 10_000 if total else 1.0,
    }
