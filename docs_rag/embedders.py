"""
The embedder that the settings name, one for the whole process; and its early loading.
"""

import functools
import threading
from collections.abc import Sequence

from docs_rag.embedding import EmbedderSpec, build_embedder
from docs_rag.records import Embedder, Purpose
from docs_rag.settings import Backend, Settings

# A model is large: whoever asks for the same one in this process shares it.
_shared_embedder = functools.cache(build_embedder)


def embedder_for(settings: Settings, *, for_one_question: bool = False) -> Embedder:
    """Return the embedder that the settings name; see ``EmbedderSpec``."""
    return _shared_embedder(
        EmbedderSpec(
            backend=settings.backend.value,
            model=settings.embed_model,
            model_path=settings.embed_model_path,
            base_url=settings.base_url,
            api_key=settings.api_key,
            for_one_question=for_one_question,
        )
    )


def load_ahead(settings: Settings, texts: Sequence[str]) -> None:
    """
    Begin to load what one question needs of the built-in model, beside the caller.

    Much of loading is inflating, which leaves the interpreter to the caller's imports.
    Whatever goes wrong goes wrong again where the answer is waited for.
    """
    if settings.backend is not Backend.BUILTIN or not texts:
        return
    embedder = embedder_for(settings, for_one_question=True)

    def load() -> None:
        try:
            embedder.embed(texts, Purpose.QUERY)
        except Exception:
            # Or Python would print a traceback beside the line that says the same.
            return

    threading.Thread(target=load, name="docs-rag-load", daemon=True).start()
