"""
Words that nobody uses, in the proportions in which people use words.

A word is its rank: pronounceable, the same everywhere, and without end, so that a
corpus meets new ones for as long as it grows. Function words are the English ones,
because the index treats those apart.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.int64]

_SEED = 30_241
VOCABULARY = 1_200_000
# Zipf's law as it is seen in large corpora: one exponent for the words that everybody
# knows, a steeper one for the rest.
_KERNEL, _SHIFT, _KERNEL_EXPONENT, _TAIL_EXPONENT = 4_000, 8, 1.08, 1.8
_FUNCTION_SHARE = 0.42
# Of the other words, so many are of the whole corpus, of the area, page and section.
_MIXTURE = {"all": 0.54, "area": 0.14, "page": 0.22, "section": 0.10}
_AREA_WORDS, _PAGE_WORDS, _SECTION_WORDS = 300, 60, 10
_PAGE_OWN_WORDS = 12
_TOPICAL_FROM = 30
_TOKENS_DRAWN = 2_000

_ONSETS = (
    *("b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v"),
    *("w", "z", "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "sc", "sh", "st", "tr"),
)
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = ("", "n", "r", "l", "t", "m", "nd", "st", "ck", "x")
_SYLLABLES = len(_ONSETS) * len(_VOWELS)
# Words of two syllables are the more frequent ones.
_SHORT_WORDS = 6_000

FUNCTION_WORDS = (
    *("the", "to", "a", "of", "and", "in", "is", "you", "that", "it", "for", "be"),
    *("with", "this", "as", "can", "on", "or", "are", "if", "we", "from", "will"),
    *("by", "not", "an", "your", "have", "when", "at", "which", "use", "so", "but"),
    *("has", "one", "all", "more", "because", "each", "then", "other", "into", "what"),
    *("there", "these", "do", "how", "only", "its", "any", "they", "some", "would"),
    *("same", "also", "where", "than", "may", "must", "without", "after", "like"),
    *("need", "does", "before", "between", "such", "no", "using", "our", "should"),
    *("while", "them", "both", "here", "about", "their", "make", "most", "once"),
)
_LEADS = (
    *("how do I", "what is", "why does", "where is", "how to", "when should I use"),
    *("what happens if", "can I", "is there a way to", "which"),
)
_WORD = re.compile(r"[a-z]{4,}")
_NAME = re.compile(r"`([^`\n]+)`")


@functools.cache
def word(rank: int) -> str:
    """Return the word of a rank; no two ranks share one."""
    syllables = 2 if rank < _SHORT_WORDS else 3
    # A step that shares no factor with the number of words visits every one once.
    number = rank * 7_654_321 % (_SYLLABLES**syllables * len(_CODAS))
    number, coda = divmod(number, len(_CODAS))
    parts = []
    for _ in range(syllables):
        number, one = divmod(number, _SYLLABLES)
        onset, vowel = divmod(one, len(_VOWELS))
        parts.append(_ONSETS[onset] + _VOWELS[vowel])
    return "".join(parts) + _CODAS[coda]


@functools.lru_cache(maxsize=1)
def _cumulative() -> npt.NDArray[np.float64]:
    ranks = np.arange(VOCABULARY) + 1.0
    kernel = (ranks + _SHIFT) ** -_KERNEL_EXPONENT
    joint = (_KERNEL + _SHIFT) ** -_KERNEL_EXPONENT
    tail = joint * (ranks / _KERNEL) ** -_TAIL_EXPONENT
    weights = np.where(ranks <= _KERNEL, kernel, tail)
    return np.cumsum(weights) / weights.sum()


@functools.lru_cache(maxsize=8)
def _zipf(count: int) -> npt.NDArray[np.float64]:
    weights = 1 / (np.arange(count) + 2.0)
    return np.cumsum(weights) / weights.sum()


def _pick(generator: np.random.Generator, chosen: Ranks, count: int) -> Ranks:
    """Draw from a few words, the first of them the most often."""
    places = np.searchsorted(_zipf(len(chosen)), generator.random(count))
    return chosen[places]


def _topical(generator: np.random.Generator, count: int) -> Ranks:
    """Draw words that a text may be about: of any rank but the most common."""
    span = np.log(VOCABULARY / _TOPICAL_FROM)
    return (_TOPICAL_FROM * np.exp(span * generator.random(count))).astype(np.int64)


@functools.lru_cache(maxsize=64)
def _area_words(area: int) -> Ranks:
    return _topical(np.random.default_rng([_SEED, area]), _AREA_WORDS)


@dataclass
class Voice:
    """How one page speaks: an endless supply of its words, in its proportions."""

    generator: np.random.Generator
    words: Ranks
    names: tuple[str, ...]
    area: Ranks
    _tokens: list[str] = field(default_factory=list)
    _content: list[str] = field(default_factory=list)

    def title(self) -> str:
        """Return a heading of two to four words, and turn to another section."""
        self._tokens.clear()
        count = int(self.generator.integers(2, 5))
        return " ".join(map(word, _pick(self.generator, self.words, count).tolist()))

    def block(self) -> str:
        """Return a paragraph, a list, or a code block."""
        kind = self.generator.random()
        if kind < 0.15:
            return self._list()
        if kind < 0.32:
            return self._code()
        return self._paragraph()

    def _next(self, count: int) -> list[str]:
        if len(self._tokens) < count:
            self._tokens = _tokens(self)
        taken, self._tokens = self._tokens[:count], self._tokens[count:]
        return taken

    def _sentence(self) -> str:
        tokens = self._next(int(self.generator.integers(8, 22)))
        if self.generator.random() < 0.35:
            tokens.insert(len(tokens) // 2, f"`{self._name()}`")
        text = " ".join(tokens)
        return f"{text[0].upper()}{text[1:]}."

    def _paragraph(self) -> str:
        return " ".join(
            self._sentence() for _ in range(int(self.generator.integers(2, 5)))
        )

    def _list(self) -> str:
        items = int(self.generator.integers(3, 6))
        return "\n".join(
            f"- `{self._name()}`: {' '.join(self._next(9))}" for _ in range(items)
        )

    def _code(self) -> str:
        lines = [
            f"{one} = {self._name()}({two}, {three})"
            for one, two, three in zip(
                *[iter(self._content_words(12))] * 3, strict=True
            )
        ]
        return "\n".join(["```python", *lines, "```"])

    def _content_words(self, count: int) -> list[str]:
        picked = _pick(self.generator, self.words, count)
        return [word(rank) for rank in picked.tolist()]

    def _name(self) -> str:
        return self.names[int(self.generator.integers(len(self.names)))]


def page_voice(area: int, generator: np.random.Generator) -> Voice:
    """Return the voice of a page: most of its words are those of its area."""
    of_area = _area_words(area)
    shared = _pick(generator, of_area, _PAGE_WORDS - _PAGE_OWN_WORDS)
    own = _topical(generator, _PAGE_OWN_WORDS)
    words = generator.permutation(np.concatenate([shared, own]))
    names = tuple(_name_of(generator, words) for _ in range(10))
    return Voice(generator, words, names, of_area)


def _name_of(generator: np.random.Generator, words: Ranks) -> str:
    first, second = map(word, _pick(generator, words, 2).tolist())
    number = int(generator.integers(100, 1000))
    forms: Sequence[str] = (
        f"{first}_{second}",
        f"{first}.{second}",
        f"{first.title()}{second.title()}",
        f"--{first}-{second}",
        f"{first[:1].upper()}{number:04}",
    )
    return forms[int(generator.choice(5, p=[0.4, 0.2, 0.2, 0.12, 0.08]))]


def _tokens(voice: Voice) -> list[str]:
    """Draw the words of about one section."""
    generator, count = voice.generator, _TOKENS_DRAWN // 4
    section = _pick(generator, voice.words, _SECTION_WORDS)
    shares = np.cumsum(list(_MIXTURE.values()))[:-1]
    source = np.searchsorted(shares, generator.random(count))
    ranks = np.searchsorted(_cumulative(), generator.random(count))
    for place, chosen in enumerate((voice.area, voice.words, section), start=1):
        of_this = source == place
        ranks[of_this] = _pick(generator, chosen, int(of_this.sum()))
    is_function = generator.random(count) < _FUNCTION_SHARE
    common = np.searchsorted(_zipf(len(FUNCTION_WORDS)), generator.random(count))
    return [
        FUNCTION_WORDS[other] if function else word(rank)
        for function, other, rank in zip(
            is_function.tolist(), common.tolist(), ranks.tolist(), strict=True
        )
    ]


def question_about(text: str, generator: np.random.Generator) -> tuple[str, str]:
    """Return a kind and a question about a passage, in some of its words."""
    names = _NAME.findall(text)
    known = set(FUNCTION_WORDS)
    found = [w for w in dict.fromkeys(_WORD.findall(text.lower())) if w not in known]
    lead = _LEADS[int(generator.integers(len(_LEADS)))]
    count = min(len(found), int(generator.integers(3, 7)))
    picked = generator.choice(len(found), count, replace=False)
    chosen = [found[i] for i in sorted(picked)]
    share = generator.random()
    if names and share < 0.2:
        name = names[int(generator.integers(len(names)))]
        return "identifier", f"{lead} {' '.join(chosen[:2])} {name}?"
    middle = FUNCTION_WORDS[int(generator.integers(20))]
    if share < 0.35:
        chosen[-1] = _misspelt(chosen[-1], generator)
        return "typo", f"{lead} {' '.join(chosen)}?"
    half = len(chosen) // 2
    return "words", f"{lead} {' '.join([*chosen[:half], middle, *chosen[half:]])}?"


def _misspelt(text: str, generator: np.random.Generator) -> str:
    """Swap two letters, or leave one out."""
    place = int(generator.integers(1, len(text) - 1))
    if generator.random() < 0.5:
        return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    return text[:place] + text[place + 1 :]
