"""
The terms behind rank and verdict of one answer, in values that JSON has.

Built only where it was asked for, and from what the search itself went by: nothing is
computed a second way. It quotes the question, so it belongs in no trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from docs_rag.calibration import Calibration
from docs_rag.candidates import Candidates
from docs_rag.ranking import RRF_K, Fused, fuse
from docs_rag.records import Hit, Match
from docs_rag.terms import Terms
from docs_rag.verdict import Evidence, judge

_DIGITS = 5


def explanation(
    phrasings: Sequence[str],
    found: Sequence[Candidates],
    calibration: Calibration,
    hits: Sequence[Hit],
    match: Match,
) -> dict[str, object]:
    """Explain ``match`` and the rank of ``hits``, phrasing by phrasing."""
    told = [
        _phrasing(query, one, calibration, hits)
        for query, one in zip(phrasings, found, strict=True)
    ]
    decisive = next((one for one in told if one["match"] == match.value), None)
    why = decisive["why"] if decisive else "no passage was found"
    return {"match": match.value, "why": why, "phrasings": told}


def _phrasing(
    query: str, one: Candidates, calibration: Calibration, hits: Sequence[Hit]
) -> dict[str, object]:
    match, why = judge(one.evidence, calibration.thresholds)
    return {
        "query": query,
        "match": match.value,
        "why": why,
        "words": list(_words(one.terms)),
        "substrings": list(one.terms.substrings),
        "evidence": _evidence(one.evidence, calibration),
        "background": _background(one, calibration),
        "lists": [
            {
                "name": ranked.name,
                "weight": _round(ranked.weight),
                "count": len(ranked.keys),
            }
            for ranked in one.lists
        ],
        "hits": list(_hits(one, hits)),
    }


def _words(terms: Terms) -> Iterator[dict[str, object]]:
    for token, stem in terms.stems.items():
        yield {
            "word": token,
            "stem": stem,
            "passages": terms.frequencies[stem],
            "weight": _round(terms.weights.get(token, 0.0)),
            "pruned": terms.pruned(token) or None,
        }


def _evidence(evidence: Evidence, calibration: Calibration) -> dict[str, object]:
    limits = calibration.thresholds.get(evidence.mode)
    return {
        "by": evidence.mode,
        "known": _round(evidence.known),
        "words": _round(evidence.words),
        "page": _round(evidence.page),
        "covered": _round(evidence.covered),
        "adds": {name: _round(value) for name, value in evidence.parts.items()},
        "score": _round(evidence.score),
        "weak_from": limits.weak if limits else None,
        "strong_from": limits.strong if limits else None,
    }


def _background(one: Candidates, calibration: Calibration) -> dict[str, object] | None:
    """Say what the best body and heading were read against; None without vectors."""
    background, evidence = calibration.background, one.evidence
    if background is None or evidence.similarity is None:
        return None
    headings = [s.heading for s in one.signals.values() if s.heading is not None]
    best = {
        "body": (evidence.similarity, evidence.body),
        "heading": (max(headings, default=None), evidence.heading),
    }
    return {
        "deviation": background.spread,
        "trust": background.trust,
        **{
            name: {
                "best": _round(similarity),
                "mean": _round(similarity - out * background.unit),
                "trusted_deviations_above": _round(out),
            }
            for name, (similarity, out) in best.items()
            if similarity is not None
        },
    }


def _hits(one: Candidates, hits: Sequence[Hit]) -> Iterator[dict[str, object]]:
    """Yield the hits that this phrasing proposed, by the best passage in each."""
    order = fuse(one.lists)
    weights = {ranked.name: ranked.weight for ranked in one.lists}
    for number, hit in enumerate(hits, start=1):
        best = next((fused for fused in order if _is_in(one, fused, hit)), None)
        if best is None:
            continue
        signals, worth = one.signals[best.key], one.worths[best.key]
        yield {
            "hit": number,
            "path": hit.path,
            "lines": [hit.first_line, hit.last_line],
            "lists": _places(best.ranks, weights),
            "rrf_score": round(best.score, 6),
            "signals": {
                name: _round(value)
                for name, value in asdict(signals).items()
                if name != "path"
            },
            "adds": {name: _round(value) for name, value in asdict(worth).items()},
            "sum": _round(worth.total),
        }


def _is_in(one: Candidates, fused: Fused[int], hit: Hit) -> bool:
    chunk = one.chunks[fused.key]
    return (
        chunk.path == hit.path
        and hit.first_line <= chunk.first_line
        and chunk.last_line <= hit.last_line
    )


def _places(
    ranks: Mapping[str, int], weights: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    return {
        name: {
            "rank": rank,
            "weight": round(weights[name], _DIGITS),
            "adds": round(weights[name] / (RRF_K + rank), 6),
        }
        for name, rank in ranks.items()
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
