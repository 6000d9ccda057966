"""
Answers and states as text and as JSON, each complete without the other.

Corpus text is data from strangers: whatever could move a cursor, hide, or pass for
this program's own words is neutralised here, in both renderings alike.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from docs_rag.records import (
    Answer,
    CorpusStatus,
    Hit,
    IndexReport,
    Omitted,
    Skipped,
)

# Control sequences, operating system commands, other strings, and what else ESC
# begins; a string that is not ended in its line hides nothing.
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\)"
    r"|[PX^_][^\x1b\n]*+\x1b\\|[ -/]*+[0-~])?"
)
_REPLACEMENT = "\ufffd"
_NEUTRAL: dict[int, str | None] = {
    **{code: _REPLACEMENT for code in [*range(0x20), *range(0x7F, 0xA0)]},
    **{ord("\n"): "\n", ord("\t"): "\t", 0x2028: "\n", 0x2029: "\n"},
    # Bidirectional controls reorder what a person reads; they have to show.
    **{
        code: _REPLACEMENT
        for code in [
            *(0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
        ]
    },
    # Zero-width characters, selectors and tags carry text that nobody sees.
    **{
        code: None
        for code in [
            *(0x00AD, 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0x200B, 0x200E),
            *range(0x2060, 0x2066),
            *range(0x206A, 0x2070),
            *range(0xFE00, 0xFE10),
            *range(0xFFF0, 0xFFFC),
            *range(0x1BCA0, 0x1BCA4),
            *range(0x1D173, 0x1D17B),
            *range(0xE0000, 0xE1000),
        ]
    },
    **{code: _REPLACEMENT for code in range(0xD800, 0xE000)},
}


# What an answer shows of a question, a heading and a list of copies: a corpus or a
# caller must not be able to fill an agent's context with them.
_MAX_QUERY_CHARS = 300
_MAX_HEADING_CHARS = 300
_MAX_ALSO_AT = 10


def neutralise(text: str) -> str:
    """Return ``text`` without terminal escapes, hidden or reordering characters."""
    return _ANSI.sub("", text).translate(_NEUTRAL)


def one_line(text: str) -> str:
    """Return ``text`` neutralised and on one line."""
    return " ".join(neutralise(text).split())


def plain_path(path: str) -> str:
    """Return ``path`` neutralised on one line, its blanks as they are."""
    return neutralise(path).replace("\n", _REPLACEMENT).replace("\t", _REPLACEMENT)


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


# -- answers ----------------------------------------------------------------------


def json_for(stream: TextIO | None, value: object) -> str:
    """Return JSON that ``stream`` can hold, whatever its encoding."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    is_unicode = encoding.lower().startswith("utf")
    return json.dumps(value, ensure_ascii=not is_unicode, indent=2)


def answer_as_json(answer: Answer) -> dict[str, Any]:
    """Return the structured result of ``retrieve``."""
    return {
        "corpus": answer.corpus,
        "generation": answer.generation,
        "commit": answer.commit,
        "query": _cut(neutralise(answer.query), _MAX_QUERY_CHARS),
        "match": answer.match.value,
        "hits": [_hit_as_json(hit) for hit in answer.hits],
        "omitted": [_omitted_as_json(omitted) for omitted in answer.omitted],
        "notice": one_line(answer.notice),
    }


def _hit_as_json(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "path": plain_path(hit.path),
        "heading": _cut(one_line(hit.heading), _MAX_HEADING_CHARS),
        "lines": [hit.first_line, hit.last_line],
        "text": neutralise(hit.text),
        "similarity": hit.similarity,
        "ranks": {
            "vector": hit.ranks.vector,
            "words": hit.ranks.words,
            "trigrams": hit.ranks.trigrams,
        },
        "rrf_score": hit.rrf_score,
        "stale": hit.stale,
        "also_at": [plain_path(path) for path in hit.also_at[:_MAX_ALSO_AT]],
        "also_at_count": len(hit.also_at),
    }


def _omitted_as_json(omitted: Omitted) -> dict[str, Any]:
    return {
        "path": plain_path(omitted.path),
        "lines": [omitted.first_line, omitted.last_line],
        "reason": one_line(omitted.reason),
    }


def answer_as_text(answer: Answer) -> str:
    """
    Return the answer as a model or a person reads it.

    Each passage stands between two lines that hold the same mark. The mark is a
    digest of all that is shown, so nothing that is shown can contain it.
    """
    structured = answer_as_json(answer)
    mark = hashlib.sha256(json.dumps(structured).encode()).hexdigest()[:16]
    lines = [
        _headline(answer),
        f"query: {one_line(structured['query'])}",
        structured["notice"],
    ]
    for number, hit in enumerate(structured["hits"], start=1):
        lines += ["", *_hit_lines(number, hit, mark)]
    if answer.omitted:
        lines += ["", "Left out:"]
        lines += [
            f"- {omitted['path']}:{_span(omitted)} ({omitted['reason']})"
            for omitted in structured["omitted"]
        ]
    return "\n".join(lines)


def _headline(answer: Answer) -> str:
    count = len(answer.hits)
    passages = "1 passage" if count == 1 else f"{count} passages"
    commit = f", commit {answer.commit}" if answer.commit else ""
    return (
        f"match: {answer.match.value} | {passages} | corpus {answer.corpus}, "
        f"generation {answer.generation}{commit}"
    )


def _span(place: dict[str, Any]) -> str:
    first, last = place["lines"]
    return f"{first}-{last}"


def _hit_lines(number: int, hit: dict[str, Any], mark: str) -> list[str]:
    heading = f" | {hit['heading']}" if hit["heading"] else ""
    stale = " | STALE: the file changed since it was indexed" if hit["stale"] else ""
    score = f"{hit['rrf_score']:.6f}"
    similarity = "-" if hit["similarity"] is None else f"{hit['similarity']:.4f}"
    ranks = ", ".join(
        f"{name} {'-' if rank is None else rank}" for name, rank in hit["ranks"].items()
    )
    numbers = f"similarity {similarity} | ranks: {ranks} | rrf_score {score}"
    return [
        f"[{number}] {hit['path']}:{_span(hit)}{heading}",
        # Not behind the heading, which could say the same.
        f"{numbers}{stale}",
        f"id: {hit['id']}",
        *_copies(hit),
        f"<<<passage {number} {mark}",
        hit["text"],
        f"{mark} passage {number}>>>",
    ]


def _copies(hit: dict[str, Any]) -> list[str]:
    if not hit["also_at"]:
        return []
    more = hit["also_at_count"] - len(hit["also_at"])
    rest = f" and {more} more" if more else ""
    return [f"also at: {', '.join(hit['also_at'])}{rest}"]


# -- states and reports -----------------------------------------------------------


def status_as_json(status: CorpusStatus, max_skipped: int = 50) -> dict[str, Any]:
    """Return the structured result of ``corpus_status``."""
    return {
        "corpus": status.corpus,
        "files": status.files,
        "chunks": status.chunks,
        "generation": status.generation,
        "indexed_at": status.indexed_at,
        "checked_at": status.checked_at,
        "commit": status.commit,
        "dirty": status.dirty,
        "synced_at": status.synced_at,
        "embedding": status.embedding,
        "skipped": [_skipped_as_json(s) for s in status.skipped[:max_skipped]],
        "skipped_count": len(status.skipped),
        "failed": [_skipped_as_json(f) for f in status.failed[:max_skipped]],
        "failed_count": len(status.failed),
        "unmatched_scope": [one_line(entry) for entry in status.unmatched_scope],
        "verdict": status.verdict,
        "vectors": status.vectors,
        "traces_dropped": status.traces_dropped,
        "notices": [one_line(notice) for notice in status.notices],
    }


def _skipped_as_json(skipped: Skipped) -> dict[str, str]:
    return {"path": plain_path(skipped.path), "reason": one_line(skipped.reason)}


def status_as_text(status: CorpusStatus, max_skipped: int = 50) -> str:
    """Return the state of a corpus, a fact a line."""
    commit = status.commit or "unknown"
    if status.dirty:
        commit += " (with local changes)"
    lines = [
        f"corpus: {status.corpus}",
        f"files: {status.files}",
        f"chunks: {status.chunks}",
        f"generation: {status.generation}",
        f"indexed at: {status.indexed_at or 'never'}",
        f"checked at: {status.checked_at or 'never'}",
        f"commit: {commit}",
        f"synced at: {status.synced_at or 'not a mirror'}",
        _facts("embedding", status.embedding),
        _facts("vectors", status.vectors),
        _facts("verdict", status.verdict),
        f"traces dropped: {status.traces_dropped}",
    ]
    lines += [
        f"scope entry matched nothing: {one_line(e)}" for e in status.unmatched_scope
    ]
    lines += [f"notice: {one_line(notice)}" for notice in status.notices]
    lines += _skipped_lines("failed", status.failed, max_skipped)
    lines += _skipped_lines("skipped", status.skipped, max_skipped)
    return "\n".join(lines)


def _facts(name: str, facts: Mapping[str, object]) -> str:
    """Return named facts on one line, as JSON names them."""
    parts = (f"{key} {_spoken(value)}" for key, value in facts.items())
    return f"{name}: {one_line(', '.join(parts)) or 'unknown'}"


def _spoken(value: object) -> str:
    """Return a value as a reader says it: none, yes, no, or as it is."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return str(value)


def _skipped_lines(word: str, skipped: Sequence[Skipped], limit: int) -> list[str]:
    lines = [f"{word}: {plain_path(s.path)} ({one_line(s.reason)})" for s in skipped]
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], f"{word}: … and {len(lines) - limit} more"]


def report_as_json(report: IndexReport) -> dict[str, Any]:
    """Return what an indexing run did, for machines."""
    return {
        "corpus": report.corpus,
        "dry_run": report.dry_run,
        "full": report.full,
        "generation": report.generation,
        "files": report.files,
        "chunks": report.chunks,
        "added": [plain_path(path) for path in report.added],
        "changed": [plain_path(path) for path in report.changed],
        "renamed": [[plain_path(old), plain_path(new)] for old, new in report.renamed],
        "purged": [plain_path(path) for path in report.purged],
        "unchanged": report.unchanged,
        "rebuilt": report.rebuilt,
        "skipped": [_skipped_as_json(skipped) for skipped in report.skipped],
        "failed": [_skipped_as_json(failed) for failed in report.failed],
        "unmatched_scope": [one_line(entry) for entry in report.unmatched_scope],
        "embedded": report.embedded,
        "reused": report.reused,
        "seconds": round(report.seconds, 3),
        "notices": [one_line(notice) for notice in report.notices],
    }


def warnings_of(report: IndexReport) -> list[str]:
    """Return what somebody should look at, for standard error: cron mails that."""
    return [
        f"warning: scope entry matched nothing: {one_line(entry)}"
        for entry in report.unmatched_scope
    ]


def report_as_text(report: IndexReport, max_paths: int = 10) -> str:
    """Return what an indexing run did, for a person or a log."""
    lines: list[str] = []
    for sign, paths in (
        ("+", report.added),
        ("~", report.changed),
        ("-", report.purged),
    ):
        lines += _path_lines(sign, [plain_path(path) for path in paths], max_paths)
    moves = [f"{plain_path(old)} -> {plain_path(new)}" for old, new in report.renamed]
    lines += _path_lines(">", moves, max_paths)
    lines += _skipped_lines("failed", report.failed, max_paths)
    lines += _skipped_lines("skipped", report.skipped, max_paths)
    lines += [f"notice: {one_line(notice)}" for notice in report.notices]
    lines.append(
        f"{report.corpus}: {len(report.added)} added, {len(report.changed)} changed, "
        f"{len(report.renamed)} renamed, {len(report.purged)} purged, "
        f"{report.unchanged} unchanged, {len(report.skipped)} skipped"
        + (f", {len(report.failed)} FAILED" if report.failed else "")
        + (f" ({report.rebuilt} cut or embedded anew)" if report.rebuilt else "")
    )
    if report.dry_run:
        lines.append(f"{report.corpus}: dry run, nothing was written")
    else:
        lines.append(
            f"{report.corpus}: {report.files} files, {report.chunks} chunks "
            f"indexed (generation {report.generation}); {report.embedded} texts "
            f"embedded, {report.reused} reused, {report.seconds:.1f} s"
        )
    return "\n".join(lines)


def _path_lines(sign: str, paths: Sequence[str], limit: int) -> list[str]:
    lines = [f"{sign} {path}" for path in paths[:limit]]
    if len(paths) > limit:
        lines.append(f"{sign} … and {len(paths) - limit} more")
    return lines
