"""
Runs as Markdown for people and as JSON for programs. Pure: values in, text out.
"""

import json
from collections.abc import Sequence

from docs_rag.measuring import (
    Outcome,
    Run,
    intervals,
    latency,
    off_summary,
    summary,
)
from docs_rag.metrics import paired_p_value, reciprocal
from docs_rag.records import Match

_COLUMNS = (
    *("recall@1", "recall@3", "recall@5", "recall@10", "mrr", "ndcg@10", "passage@5"),
    *("false_none", "strong"),
)


def as_json(runs: Sequence[Run], command: str) -> str:
    """Return everything that was measured."""
    return json.dumps(
        {"command": command, "runs": [_run_as_json(run) for run in runs]},
        ensure_ascii=False,
        indent=1,
    )


def _run_as_json(run: Run) -> dict[str, object]:
    return {
        **_facts(run),
        "families": {
            name: {**summary(outcomes), "intervals": intervals(outcomes)}
            for name, outcomes in run.families().items()
        },
        "off": off_summary(run.off()),
        "latency": latency(run.outcomes),
        "questions": [
            {
                "id": outcome.case.id,
                "family": outcome.case.family,
                "rank": outcome.rank,
                "passage": outcome.passage,
                "match": outcome.match.value,
                "paths": outcome.paths[:5],
                "ms": round(outcome.milliseconds, 1),
            }
            for outcome in run.outcomes
        ],
    }


def _facts(run: Run) -> dict[str, object]:
    return {
        "name": run.name,
        "corpus": run.corpus,
        "commit": run.commit,
        "files": run.files,
        "chunks": run.chunks,
        "model": run.model,
        "docs_rag": run.version,
        "date": run.date,
        "index_seconds": round(run.index_seconds, 1),
        "texts_embedded": run.embedded,
        "load": run.load,
        "calibration": dict(run.verdict),
    }


def as_markdown(runs: Sequence[Run], command: str, *, ids_only: bool = False) -> str:
    """
    Return a report: facts, families, comparison, misses, every question.

    With ``ids_only`` no question is quoted, for sets that may not be passed on.
    """
    first = runs[0]
    parts = [f"# Retrieval over {first.corpus}", f"```bash\n{command}\n```"]
    for run in runs:
        title = f"## {run.name}" if len(runs) > 1 else "## Result"
        parts += [title, _facts_as_text(run), _families(run), _off(run)]
    if len(runs) > 1:
        parts += ["## Side by side", _comparison(runs)]
    for run in runs:
        suffix = f": {run.name}" if len(runs) > 1 else ""
        parts += [f"## Misses{suffix}", _misses(run, ids_only)]
    parts += ["## Every question", _questions(runs)]
    return "\n\n".join(parts) + "\n"


def _facts_as_text(run: Run) -> str:
    times = latency(run.outcomes)
    embedding = f"{run.embedded} texts embedded in {run.index_seconds:.0f} s"
    if not run.embedded:
        embedding = "already indexed"
    rates = ", ".join(f"{key} {value}" for key, value in run.verdict.items())
    return (
        f"{run.date}, docs-rag {run.version}, model `{run.model}`, corpus commit "
        f"`{run.commit}`: {run.files} files, {run.chunks} chunks, {embedding}; a "
        f"question takes {times['p50_ms']:.0f} ms (p50), {times['p95_ms']:.0f} ms "
        f"(p95), at a load of {run.load:.1f}. The index's own estimate of its "
        f"verdicts: {rates or 'none'}."
    )


def _families(run: Run) -> str:
    header = "| family | questions | " + " | ".join(_COLUMNS) + " |"
    rows = [header, "|---" * (len(_COLUMNS) + 2) + "|"]
    for name, outcomes in run.families().items():
        if not outcomes:
            continue
        numbers = summary(outcomes)
        cells = [f"{numbers[column]:.3f}" for column in _COLUMNS]
        rows.append(f"| {name} | {len(outcomes)} | {' | '.join(cells)} |")
    answerable = run.families()["all"]
    spans = ", ".join(
        f"{name} {low:.3f}–{high:.3f}"
        for name, (low, high) in intervals(answerable).items()
    )
    return "\n".join(rows) + f"\n\n95 % bootstrap intervals over all: {spans}."


def _off(run: Run) -> str:
    outcomes = run.off()
    if not outcomes:
        return "No question in this set is without an answer."
    numbers = off_summary(outcomes)
    return (
        f"Of {len(outcomes)} questions that the corpus does not answer, "
        f"{numbers['none']:.1%} got `none`, {numbers['weak']:.1%} `weak`, "
        f"{numbers['false_strong']:.1%} `strong`."
    )


def _comparison(runs: Sequence[Run]) -> str:
    base = runs[0]
    rows = [
        "| setting | recall@1 | recall@5 | mrr | passage@5 | p against the first |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        numbers = summary(run.families()["all"])
        chance = (
            ""
            if run is base
            else f"{paired_p_value(_inverse(base), _inverse(run)):.3f}"
        )
        rows.append(
            f"| {run.name} | {numbers['recall@1']:.3f} | {numbers['recall@5']:.3f} | "
            f"{numbers['mrr']:.3f} | {numbers['passage@5']:.3f} | {chance} |"
        )
    note = "p: paired permutation test over the reciprocal ranks, question by question."
    return "\n".join(rows) + f"\n\n{note}"


def _inverse(run: Run) -> list[float]:
    return [reciprocal(outcome.rank) for outcome in run.families()["all"]]


def _misses(run: Run, ids_only: bool) -> str:
    def asked(outcome: Outcome) -> str:
        return outcome.case.id if ids_only else _cell(outcome.case.query)

    rows = [
        "| question | rank | expected | in front of it |",
        "|---|---|---|---|",
    ]
    for outcome in run.families()["all"]:
        if outcome.rank == 1:
            continue
        ahead = outcome.paths[: (outcome.rank or 4) - 1][:3]
        rows.append(
            f"| {asked(outcome)} | {outcome.rank or 'not found'} | "
            f"{outcome.case.expected[0]} | {', '.join(ahead)} |"
        )
    wrong = [o for o in run.outcomes if _is_misjudged(o)]
    verdicts = "\n".join(f"- `{o.match.value}`: {asked(o)}" for o in wrong)
    table = "\n".join(rows) if len(rows) > 2 else "None: every page came first."
    return table + (f"\n\nWrong verdicts:\n\n{verdicts}" if wrong else "")


def _is_misjudged(outcome: Outcome) -> bool:
    if outcome.case.is_answerable:
        return outcome.match is Match.NONE
    return outcome.match is not Match.NONE


def _questions(runs: Sequence[Run]) -> str:
    names = " | ".join(f"rank, verdict: {run.name}" for run in runs)
    rows = [f"| id | {names} |", "|---" * (len(runs) + 1) + "|"]
    for outcomes in zip(*(run.outcomes for run in runs), strict=True):
        cells = " | ".join(f"{o.rank or '-'}, {o.match.value}" for o in outcomes)
        rows.append(f"| {outcomes[0].case.id} | {cells} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
