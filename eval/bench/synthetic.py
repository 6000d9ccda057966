"""
A corpus of any size that nobody wrote, and an index of it that no model embedded.

Deterministic: page ``n`` of a seed is the same in every process and in a corpus of any
size, and so is its vector (to the last bits, which a machine's BLAS decides).

Matched to two real corpora under the built-in model (rust-lang/book, 1,389 passages;
fastapi's documentation, 1,988), of which these were measured:

- mean and spread of the cosine between passages (.35 ± .11, .38 ± .17), within a page
  (.58, .64), between neighbours (.67, .70); between headings (.20 ± .14, .25 ± .21); of
  a heading to its own passage (.44, .41);
- the nearest and the tenth nearest passage to a passage (.77 and .64, .83 and .72), and
  to a question (.53 and .43, .51 and .41), whose mean over the corpus is .18;
- the length of the mean vector (.59, .62), the share of variance by principal component
  and with it the effective dimensionality (participation ratio 55, 26);
- how many words are in more than 30 % of passages (61, 33), in more than 10 % (212,
  119), distinct ones in a passage (93, 70); the vocabulary's growth with the text
  (Heaps' exponent .45, .60); passages of a page (12, 13), characters of a passage.

Not matched: the handful of coordinates in which the real model hardly varies, pages
that are copies of each other, other languages; at 10,000 passages a third of the
vocabulary, and not half, is in one passage alone, and there is twice as much of it as
of one subject. Areas of about 64 pages share words and a direction, so a larger corpus
is about more things and not more about one.
"""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import threadpoolctl

from eval.bench.vocabulary import Voice, page_voice, question_about

Vectors = npt.NDArray[np.float32]

# Raise when anything here or in ``vocabulary`` changes what is generated: indexes are
# kept between runs under this number.
VERSION = 1
DIMENSION = 512
AREA_PAGES = 64
_CHAPTER_PAGES = 5
PASSAGES_PER_PAGE = 10
_SEED = 20_240
_SECTIONS = (4, 8)
_PASSAGE_CHARS = 750

# Share of variance at these principal components, as measured (see above).
_SPECTRUM = {
    **{1: 0.0665, 2: 0.0526, 4: 0.0359, 8: 0.0211, 16: 0.0140, 32: 0.0078, 64: 0.0036},
    **{128: 0.0013, 256: 0.00028, 400: 0.00007, 512: 0.00001},
}
# Squared lengths of what a passage shares with its area, chapter, page and section, and
# of what is its own; the rest of its length is common to all of the corpus.
_BODY = {"area": 0.06, "chapter": 0.12, "page": 0.133, "section": 0.10, "own": 0.317}
_HEADING = {"area": 0.05, "chapter": 0.20, "page": 0.31, "section": 0.30}
# How far a heading points where its passage does, within each of these.
_HEADING_AGREES = 0.55
# What all passages, headings and questions have in common, in three directions.
_COMMON = {
    "body": (0.52, 0, 0),
    "heading": (0.21, 0.30, 0),
    "query": (0.23, 0.10, 0.37),
}
# A question points to the subject of its passage, to the passage itself, and elsewhere.
_QUERY_SUBJECT, _QUERY_OWN = 0.55, 0.22


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a page: lines ``first_line``..``last_line``, and its section."""

    section: int
    first_line: int
    last_line: int
    body: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of markdown; ``headings`` are those of its sections, in order."""

    number: int
    path: str
    title: str
    headings: tuple[str, ...]
    passages: tuple[Passage, ...]

    @property
    def text(self) -> str:
        """The page as markdown."""
        return "\n\n".join(passage.body for passage in self.passages) + "\n"


def page(number: int, passages: int | None = None) -> Page:
    """Return page ``number``, or its first passages."""
    voice = _voice(number)
    sizes = _section_sizes(_layout(number))
    title = voice.title()
    headings, held, line = [title], [], 1
    for section, size in enumerate(sizes):
        if section:
            headings.append(voice.title())
        for place in range(size):
            opening = "#" if section == 0 else "##"
            lead = f"{opening} {headings[section]}" if place == 0 else ""
            body = _body(voice, lead)
            last = line + body.count("\n")
            held.append(Passage(section, line, last, body))
            line = last + 2
    area = number // AREA_PAGES
    path = f"docs/area-{area:04}/{_slug(title)}-{number:06}.md"
    return Page(number, path, title, tuple(headings), tuple(held[:passages]))


def _voice(number: int) -> Voice:
    generator = np.random.default_rng([_SEED, 1, number])
    return page_voice(number // AREA_PAGES, generator)


def _layout(number: int) -> np.random.Generator:
    return np.random.default_rng([_SEED, 4, number])


def _section_sizes(generator: np.random.Generator) -> list[int]:
    count = int(generator.integers(*_SECTIONS))
    return [int(n) for n in generator.choice([1, 2, 3], count, p=[0.4, 0.4, 0.2])]


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")


def _body(voice: Voice, lead: str) -> str:
    """Return blocks of about one passage: prose, and now and then a list or code."""
    blocks = [lead] if lead else []
    while sum(map(len, blocks)) < _PASSAGE_CHARS - 120:
        blocks.append(voice.block())
    return "\n\n".join(blocks)


def write_markdown(directory: Path, files: int, *, first: int = 0) -> int:
    """Write pages ``first``.. as files under ``directory``; return their bytes."""
    size = 0
    for number in range(first, first + files):
        one = page(number)
        path = directory / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        data = one.text.encode()
        path.write_bytes(data)
        size += len(data)
    return size


# -- vectors ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageVectors:
    """Unit vectors of a page's passages and of its sections' headings."""

    bodies: Vectors
    headings: Vectors


def page_vectors(
    pages: Sequence[Page], dimension: int = DIMENSION
) -> list[PageVectors]:
    """Return the vectors of pages; many at a time are cheaper."""
    parts = [_parts(one, dimension) for one in pages]
    headings = [_heading_parts(one, p) for one, p in zip(pages, parts, strict=True)]
    bodies = [one.body for one in parts]
    return [
        PageVectors(*pair)
        for pair in zip(
            _unit(bodies, "body", dimension),
            _unit(headings, "heading", dimension),
            strict=True,
        )
    ]


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a page's vectors are made of, in the basis of principal components."""

    area: Vectors
    chapter: Vectors
    page: Vectors
    sections: Vectors
    own: Vectors
    body: Vectors
    generator: np.random.Generator


def _parts(one: Page, dimension: int) -> _Parts:
    generator = np.random.default_rng([_SEED, 2, one.number])
    area = _shared("area", one.number // AREA_PAGES, dimension)
    chapter = _shared("chapter", one.number // _CHAPTER_PAGES, dimension)
    draw = functools.partial(_draw, generator, dimension=dimension)
    whole, sections = draw(1)[0], draw(len(one.headings))
    # Some sections say one thing in many ways, others many things.
    unlike = generator.lognormal(-0.1, 0.45, len(one.headings)).astype(np.float32)
    of = [passage.section for passage in one.passages]
    own = draw(len(of)) * unlike[of][:, None]
    share = {name: np.float32(value**0.5) for name, value in _BODY.items()}
    body = (
        share["area"] * area
        + share["chapter"] * chapter
        + share["page"] * whole
        + share["section"] * sections[of]
        + share["own"] * own
    )
    return _Parts(area, chapter, whole, sections, own, body, generator)


def _heading_parts(one: Page, parts: _Parts) -> Vectors:
    dimension = parts.area.shape[-1]
    agree = np.float32(_HEADING_AGREES)
    differ = np.float32((1 - _HEADING_AGREES**2) ** 0.5)
    whole, *sections = _draw(
        parts.generator, 1 + len(one.headings), dimension=dimension
    )
    area = _shared("area heading", one.number // AREA_PAGES, dimension)
    chapter = _shared("chapter heading", one.number // _CHAPTER_PAGES, dimension)
    return sum(  # type: ignore[return-value]
        np.float32(_HEADING[name] ** 0.5) * (agree * same + differ * new)
        for name, same, new in (
            ("area", parts.area, area),
            ("chapter", parts.chapter, chapter),
            ("page", parts.page, whole),
            ("section", parts.sections, np.stack(sections)),
        )
    )


def _draw(
    generator: np.random.Generator, count: int, dimension: int = DIMENSION
) -> Vectors:
    """Draw vectors of length about one whose components vary as measured."""
    normal = generator.standard_normal((count, dimension), dtype=np.float32)
    return normal * _deviations(dimension)


@functools.lru_cache(maxsize=64)
def _shared(kind: str, number: int, dimension: int) -> Vectors:
    """Return the part of their vectors that the pages of an area or chapter share."""
    return _draw(
        np.random.default_rng([_SEED, 3, *kind.encode(), number]), 1, dimension
    )[0]


@functools.lru_cache(maxsize=4)
def _deviations(dimension: int) -> Vectors:
    places = np.log(np.arange(1, dimension + 1) * DIMENSION / dimension)
    known = np.log(list(_SPECTRUM))
    shares = np.exp(np.interp(places, known, np.log(list(_SPECTRUM.values()))))
    return np.sqrt(shares / shares.sum()).astype(np.float32)


@functools.lru_cache(maxsize=4)
def _rotation(dimension: int) -> Vectors:
    """Return a fixed rotation, so that no coordinate is a principal component."""
    generator = np.random.default_rng([_SEED, 5, dimension])
    basis, triangle = np.linalg.qr(generator.standard_normal((dimension, dimension)))
    return np.ascontiguousarray((basis * np.sign(np.diag(triangle))), np.float32)


@functools.lru_cache(maxsize=16)
def _common(kind: str, dimension: int) -> Vectors:
    generator = np.random.default_rng([_SEED, 6, dimension])
    basis, _ = np.linalg.qr(generator.standard_normal((dimension, 3)))
    return (basis @ np.array(_COMMON[kind])).astype(np.float32)


def _unit(groups: Sequence[Vectors], kind: str, dimension: int) -> list[Vectors]:
    """Turn groups of rows out of the principal basis and make them unit vectors."""
    # Two threads for so small a product only wait for each other.
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        rows = np.concatenate(groups) @ _rotation(dimension)
    rows += _common(kind, dimension)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.split(rows, np.cumsum([len(group) for group in groups])[:-1])


# -- questions --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the vector a model might give it, and the page it was made from."""

    text: str
    kind: str
    vector: Vectors
    path: str


def queries(
    count: int, chunks: int, dimension: int = DIMENSION, *, first: int = 0
) -> list[Asked]:
    """Return questions about the first ``chunks`` passages, all different."""
    pages = max(1, int(chunks / PASSAGES_PER_PAGE * 0.8))
    asked: dict[str, Asked] = {}
    number = first
    while len(asked) < count:
        one = _query(number, pages, dimension)
        asked.setdefault(one.text, one)
        number += 1
    return list(asked.values())


def _query(number: int, pages: int, dimension: int) -> Asked:
    generator = np.random.default_rng([_SEED, 7, number])
    one = page(int(generator.integers(pages)))
    place = int(generator.integers(len(one.passages)))
    kind, text = question_about(one.passages[place].body, generator)
    vector = _query_vector(one, place, generator, dimension)
    return Asked(text, kind, vector, one.path)


def _query_vector(
    one: Page, place: int, generator: np.random.Generator, dimension: int
) -> Vectors:
    parts = _parts(one, dimension)
    own = np.float32(_BODY["own"] ** 0.5) * parts.own[place]
    subject = parts.body[place] - own
    noise = _draw(generator, 1, dimension)[0]
    length = float(np.sqrt(1 - np.square(_COMMON["query"]).sum()))
    elsewhere = (1 - _QUERY_SUBJECT**2 - _QUERY_OWN**2) ** 0.5
    row = length * (
        _QUERY_SUBJECT * subject / np.linalg.norm(subject)
        + _QUERY_OWN * own / np.linalg.norm(own)
        + elsewhere * noise
    )
    return _unit([row[None].astype(np.float32)], "query", dimension)[0][0]


def unknown_vector(text: str, dimension: int = DIMENSION) -> Vectors:
    """Return a vector for a text that nobody generated: that of any question."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    noise = _draw(np.random.default_rng([_SEED, 8, *digest]), 1, dimension)
    return _unit([noise], "query", dimension)[0][0]


def common_vectors(dimension: int = DIMENSION) -> tuple[Vectors, Vectors]:
    """Return what all passages and what all headings have in common, unscaled."""
    return _common("body", dimension), _common("heading", dimension)


def page_sizes(chunks: int) -> Iterator[tuple[int, int]]:
    """Yield numbers of pages that hold ``chunks`` passages, with how many of them."""
    number = held = 0
    while held < chunks:
        size = min(sum(_section_sizes(_layout(number))), chunks - held)
        yield number, size
        held += size
        number += 1
