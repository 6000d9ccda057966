"""
An explanation as lines for a terminal.

The same terms as in JSON, none left out; what the corpus wrote is neutralised.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from docs_rag.records import Answer
from docs_rag.rendering import plain_path


def explanation_as_text(answer: Answer) -> str:
    """Return the facts of an answer, and below them its explanation if it has one."""
    lines = [f"  {name}: {value}" for name, value in answer.facts.items()]
    told: Mapping[str, Any] | None = answer.explanation
    if told is not None:
        lines.append(f"  match: {told['match']}, because {told['why']}")
        for phrasing in told["phrasings"]:
            lines += _phrasing(phrasing)
    return "\n".join(lines)


def _phrasing(told: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n  phrasing: {plain_path(told['query'])}"
    yield f"    match: {told['match']}, because {told['why']}"
    yield "    words:"
    for word in told["words"]:
        pruned = f", not asked: {word['pruned']}" if word["pruned"] else ""
        yield (
            f"      {plain_path(word['word'])}: weight {word['weight']}, stem "
            f"{plain_path(word['stem'])} in {word['passages']} passages{pruned}"
        )
    parts = ", ".join(map(plain_path, told["substrings"])) or "-"
    yield f"    substrings: {parts}"
    yield f"    evidence: {_pairs(told['evidence'])}"
    background = told["background"]
    yield f"    background: {_pairs(background) if background else '-'}"
    yield "    lists:"
    yield from (f"      {_pairs(ranked)}" for ranked in told["lists"])
    yield "    hits:"
    for hit in told["hits"]:
        yield from _hit(hit)


def _hit(told: Mapping[str, Any]) -> Iterator[str]:
    first, last = told["lines"]
    yield f"      [{told['hit']}] {plain_path(told['path'])}:{first}-{last}"
    for name, place in told["lists"].items():
        yield f"        {name}: {_pairs(place)}"
    yield f"        rrf_score {told['rrf_score']}, sum of evidence {told['sum']}"
    yield f"        signals: {_pairs(told['signals'])}"
    yield f"        adds: {_pairs(told['adds'])}"


def _pairs(values: Mapping[str, Any]) -> str:
    """Return names and values on one line; what is nested stands in brackets."""
    shown = (
        f"{name} ({_pairs(value)})"
        if isinstance(value, Mapping)
        else f"{name} {'-' if value is None else value}"
        for name, value in values.items()
    )
    return ", ".join(shown)
