"""
Drafts of labelled questions from a user's own corpus, for the user to edit.

Pure, and no model: a heading is a question, so is a definition, so is an error message.
What comes out leans on the corpus' own words and is too easy as it stands: say it as a
user would before measuring by it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from docs_rag.schema import StoredChunk
from docs_rag.tracemisses import Miss

# "A sluice is a gate that …", with the name in emphasis or code or not.
_DEFINITION = re.compile(
    r"(?:^|(?<=[.!?]\s))(?:An?|The)?\s*(?P<name>[*_`]*\w[\w -]{2,40}?[*_`]*)\s+"
    r"(?:is|are)\s+(?P<what>(?:an?|the)\s[^.\n]{15,120})",
    re.MULTILINE,
)
_ERROR = re.compile(
    r"^.*?(?P<message>(?:[\w.]*(?:Error|Exception)|error(?:\[\w+\])?|fatal|panicked)"
    r"\b[^\n]{0,10}:\s*[^\n]{8,100})$",
    re.MULTILINE,
)
_EVIDENCE_CHARS = 60
_MIN_HEADING_WORDS = 2


@dataclass(frozen=True, slots=True)
class Draft:
    """A question to edit: ``evidence`` is a phrase of the passage that answers."""

    family: str
    query: str
    path: str
    evidence: str


def draft(chunks: Iterable[StoredChunk], count: int) -> list[Draft]:
    """Propose up to ``count`` questions, the families and the pages in turn."""
    by_family: dict[str, dict[str, Draft]] = {
        "heading": {},
        "definition": {},
        "error": {},
    }
    for chunk in chunks:
        for one in _drafts(chunk):
            # One of each family a page, so that no long page fills the list.
            by_family[one.family].setdefault(one.path, one)
    families = [list(found.values()) for found in by_family.values()]
    chosen: list[Draft] = []
    for place in range(max(map(len, families), default=0)):
        chosen += [found[place] for found in families if place < len(found)]
    return chosen[:count]


def _drafts(chunk: StoredChunk) -> Iterator[Draft]:
    # A passage over several sections has their headings side by side.
    leaf = chunk.heading.rsplit(" > ", 1)[-1].split(" | ")[0]
    first = next((line for line in chunk.body.split("\n") if _is_prose(line)), "")
    if first and len(leaf.split()) >= _MIN_HEADING_WORDS:
        yield Draft("heading", leaf, chunk.path, first[:_EVIDENCE_CHARS].strip())
    definition = _DEFINITION.search(chunk.body)
    if definition:
        name = definition["name"].strip("*_` ")
        evidence = definition["what"][:_EVIDENCE_CHARS].strip()
        yield Draft("definition", f"What is {name}?", chunk.path, evidence)
    error = _ERROR.search(chunk.body)
    if error:
        message = error["message"].strip()
        yield Draft("error", message, chunk.path, message[:_EVIDENCE_CHARS].strip())


def _is_prose(line: str) -> bool:
    return len(line) > 20 and line[:1].isalpha()


def as_lines(drafts: Iterable[Draft], misses: Iterable[Miss] = ()) -> str:
    """
    Return a golden file: one JSON object a line, with ids that count on.

    A question that users asked in vain has no page yet: its ``expected`` is empty, to
    be filled in where the corpus answers it after all.
    """
    rows: list[dict[str, object]] = [
        {
            "family": one.family,
            "query": one.query,
            "expected": [one.path],
            "evidence": one.evidence,
        }
        for one in drafts
    ]
    rows += [
        {"family": "missed", "query": miss.query, "expected": []}
        for miss in misses
        if miss.query
    ]
    return "".join(
        json.dumps({"id": f"draft-{number:03}", **row}, ensure_ascii=False) + "\n"
        for number, row in enumerate(rows, start=1)
    )
