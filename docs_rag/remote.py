"""
The embedder behind an HTTP endpoint: batches, a unit of length, a measured window.

A text that a server cannot embed is found and named, and does not cost its
neighbours in the batch their vectors.
"""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from docs_rag.backend import prepare, sanitize
from docs_rag.endpoint import PATIENCE, Endpoint, EndpointError, Pace, Patience
from docs_rag.errors import EmbeddingError, TextRefusedError
from docs_rag.prefixes import prefixes_for
from docs_rag.records import (
    Capacity,
    EmbeddingBatch,
    ModelIdentity,
    Purpose,
    Secret,
)
from docs_rag.windows import measure_capacity

if TYPE_CHECKING:
    from docs_rag.records import Vectors

# Enough to fill a server, and few enough that a batch lost on the way is cheap.
BATCH_TEXTS = 32
BATCH_CHARS = 48_000

# A question has no more phrasings: whoever asks with more texts at once, as the
# calibration of an index does, is not waiting for an answer.
MOST_PHRASINGS = 16

# What any server embeds, if it embeds at all.
_CANARY = "documentation"
_CANARY_PATIENCE = Patience(tries=5, read_seconds=30, total_seconds=30, input_tries=1)

# Long texts that break a server would otherwise be tried, and waited for, thrice.
_PROBE_PATIENCE = Patience(tries=5, read_seconds=120, total_seconds=300, input_tries=2)

_PIECES = re.compile(r"([A-Za-z]+)|(\s+)|([^\x00-\x7f]+)|.", re.ASCII | re.DOTALL)
_VOWELS = frozenset("aeiouAEIOU")


def estimate_tokens(text: str) -> int:
    """
    Return about the most tokens that ``text`` is for any tokenizer.

    Letters count half, or what consonants and vowels differ by, which is the more for
    what is not a word; digits and marks one; a character beyond ASCII one less than
    its bytes. With a WordPiece and a Unigram vocabulary a unit was 0.5 tokens of
    English documentation, 0.5 of Chinese, at most 1.15 of random letters, digits,
    marks, rare ideographs or base64, and 1.34 of ``nonsense_words``, which is why the
    window is measured with those.
    """
    return sum(map(_piece_tokens, _PIECES.finditer(text)))


def _piece_tokens(match: re.Match[str]) -> int:
    letters, spaces, others = match.groups()
    if letters:
        return _word_tokens(letters)
    if spaces:
        return max(spaces.count("\n"), -(-(len(spaces) - 1) // 3))
    return len(others.encode()) - len(others) if others else 1


@functools.lru_cache(maxsize=20_000)
def _word_tokens(letters: str) -> int:
    vowels = sum(letter in _VOWELS for letter in letters)
    return max(-(-len(letters) // 2), abs(len(letters) - 2 * vowels))


def nonsense_words(word_count: int) -> str:
    """
    Return words of a vowel and a consonant: nothing has more tokens a unit.

    Nor more characters or words a unit, for servers that cut by those.
    """
    vowels, consonants = "aeiou", "bcdfghjklmnpqrstvwxz"
    return " ".join(
        vowels[(i * i + i // 7) % 5] + consonants[(i * 7 + i // 5) % 20]
        for i in range(word_count)
    )


def rare_letters(word_count: int) -> str:
    """Return words of N'Ko letters: two tokens a unit where bytes are tokens."""
    return " ".join(
        "".join(chr(0x7CA + (i * 5 + k * k + 3 * k) % 33) for k in range(4))
        for i in range(word_count)
    )


class HttpEmbedder:
    """An ``Embedder`` for LM Studio, Ollama, vLLM, llama.cpp and their like."""

    def __init__(
        self, base_url: str, model: str, api_key: Secret, pace: Pace | None = None
    ) -> None:
        self._endpoint = Endpoint(base_url, model, api_key, pace)
        self._prefixes = prefixes_for(model)
        self._width: int | None = None

    @property
    def identity(self) -> ModelIdentity:
        """The model by name: a server does not tell which weights it has."""
        return ModelIdentity(
            backend="openai",
            model=self._endpoint.model,
            query_prefix=self._prefixes.query,
            passage_prefix=self._prefixes.passage,
        )

    def close(self) -> None:
        """Close the connections; also done when the embedder is garbage."""
        self._endpoint.close()

    def count(self, text: str) -> int:
        """Estimate the tokens of ``text`` with the passage prefix, from above."""
        return estimate_tokens(self._prefixes.passage + sanitize(text))

    def probe(self) -> Capacity:
        """Measure width and window with a few long requests."""

        def embed(texts: Sequence[str]) -> "Vectors":
            return self._embed(texts, Purpose.PASSAGE, _PROBE_PATIENCE).vectors

        return measure_capacity(self.count, embed, (nonsense_words, rare_letters))

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """Embed in batches; ``TextRefusedError`` names a text that is to blame."""
        waiting = purpose is Purpose.QUERY and len(texts) <= MOST_PHRASINGS
        patience = PATIENCE[Purpose.QUERY if waiting else Purpose.PASSAGE]
        return self._embed(texts, purpose, patience)

    def _embed(
        self, texts: Sequence[str], purpose: Purpose, patience: Patience
    ) -> EmbeddingBatch:
        prefix = self._prefixes.of(purpose)
        prepared = [prepare(text, prefix) for text in texts]
        # No time to find out on behalf of a query whose fault a refusal is.
        alive = patience is PATIENCE[Purpose.QUERY]
        asking = _Asking(self._endpoint, patience, self._check_width, alive)
        parts = [asking.ask(prepared[a:b], a) for a, b in _batches(prepared)]
        if not parts:
            parts = [np.zeros((0, self._width or 0), dtype=np.float32)]
        return EmbeddingBatch(np.concatenate(parts), asking.tokens)

    def _check_width(self, width: int | None) -> None:
        if self._width is None:
            self._width = width
        if width not in (None, self._width):
            raise EmbeddingError(
                f"model {self._endpoint.model!r} returned vectors of width {width} "
                f"after vectors of width {self._width}; the server has switched "
                "models: load one, and index again"
            )


class _Asking:
    """The requests of one call to ``embed``, and the search for a text at fault."""

    def __init__(
        self,
        endpoint: Endpoint,
        patience: Patience,
        check_width: Callable[[int | None], None],
        alive: bool,
    ) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._check_width = check_width
        self._alive = alive
        self._token_counts: list[int | None] = []

    @property
    def tokens(self) -> int | None:
        """The tokens used so far, if the server told each time."""
        known = [count for count in self._token_counts if count is not None]
        return sum(known) if len(known) == len(self._token_counts) else None

    def ask(self, texts: list[str], position: int) -> "Vectors":
        """Embed ``texts``, the first of which is number ``position`` of the call."""
        try:
            reply = self._endpoint.ask(texts, self._patience)
        except EndpointError as error:
            if not error.about_input:
                raise
            return self._ask_halves(texts, position, error)
        self._check_width(reply.width)
        self._token_counts.append(reply.tokens)
        if reply.faults and len(texts) == 1:
            raise TextRefusedError(
                f"text {position + 1} of the batch cannot be embedded by model "
                f"{self._endpoint.model!r}: {reply.faults[0]}",
                position,
            )
        # Some servers spoil a vector only in company: ask for each of those alone.
        alone = {i: self.ask([texts[i]], position + i)[0] for i in reply.faults}
        return np.stack([alone.get(i, row) for i, row in enumerate(reply.rows)])

    def _ask_halves(
        self, texts: list[str], position: int, error: EndpointError
    ) -> "Vectors":
        """Divide a batch that was refused, down to the text that is to blame."""
        if not self._alive:
            self._check_alive(error)
        if len(texts) == 1:
            raise TextRefusedError(
                f"text {position + 1} of the batch ({len(texts[0]):,} characters) was "
                f"refused, perhaps as longer than the model's context: {error}",
                position,
            ) from error
        middle = len(texts) // 2
        first = self.ask(texts[:middle], position)
        return np.concatenate([first, self.ask(texts[middle:], position + middle)])

    def _check_alive(self, error: EndpointError) -> None:
        """Raise ``error`` if the server refuses even the plainest text."""
        try:
            self._endpoint.ask([_CANARY], _CANARY_PATIENCE)
        except EndpointError:
            raise error from None
        self._alive = True


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of batches bounded in texts and in characters."""
    start, chars = 0, 0
    for position, text in enumerate(texts):
        full = position - start >= BATCH_TEXTS or chars + len(text) > BATCH_CHARS
        if full and position > start:
            yield start, position
            start, chars = position, 0
        chars += len(text)
    if start < len(texts):
        yield start, len(texts)
