"""
A run as JSON for programs, as Markdown for people, and its growth as a picture.

Pure: values in, text out. The Markdown says first which goals are met and which not.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from eval.bench.figures import Figure, Section, Table

Machine = Mapping[str, object]


def as_json(sections: Sequence[Section], machine: Machine, command: str) -> str:
    """Return everything that was measured."""
    rows = [
        {
            **dataclasses.asdict(section),
            "figures": [_figure_as_json(figure) for figure in section.figures],
        }
        for section in sections
    ]
    value = {"command": command, "machine": dict(machine), "sections": rows}
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _figure_as_json(figure: Figure) -> dict[str, Any]:
    derived = {"ratio": figure.ratio, "is_met": figure.is_met}
    return dataclasses.asdict(figure) | derived


def missed(sections: Sequence[Section]) -> list[Figure]:
    """Return the figures that do not reach their goal."""
    return [f for section in sections for f in section.figures if f.is_met is False]


def as_markdown(
    sections: Sequence[Section], machine: Machine, command: str, chart: str | None
) -> str:
    """Return the report; ``chart`` is the file name of the growth chart."""
    figures = [f for section in sections for f in section.figures]
    judged = [figure for figure in figures if figure.is_met is not None]
    lines = [
        "# Benchmark",
        "",
        f"`{command}`",
        "",
        "Each ratio is to a baseline that was timed in the same run; an absolute time "
        "is of this machine and of this hour.",
        "",
        *_table(("machine", ""), [(_plain(k), _plain(v)) for k, v in machine.items()]),
        "",
        f"## Goals: {len(judged) - len(missed(sections))} of {len(judged)} met",
        "",
        *_table(
            ("goal", "measured", "wanted", "met"),
            [_goal(f) for f in sorted(judged, key=lambda f: f.is_met is True)],
        ),
    ]
    if chart is not None:
        lines += ["", f"![Time of each stage by size of the corpus]({chart})"]
    for section in sections:
        lines += ["", *_section(section)]
    return "\n".join(lines) + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"## {section.title}", ""]
    if section.figures:
        columns = ("figure", "value", "baseline", "ratio")
        lines += [*_table(columns, [_row(one) for one in section.figures]), ""]
    for table in section.tables:
        rows = [tuple(map(_plain, row)) for row in table.rows]
        lines += [f"### {table.title}", "", *_table(table.columns, rows), ""]
    for note in section.notes:
        lines += [note, ""]
    return lines[:-1]


def _goal(figure: Figure) -> tuple[str, ...]:
    side = "at least" if figure.at_least else "at most"
    if figure.baseline is None:
        measured, wanted = _quantity(figure.value, figure.unit), f"{figure.goal:g}"
        wanted = f"{side} {_quantity(float(figure.goal or 0), figure.unit)}"
    else:
        measured = f"{_number(figure.ratio or 0.0)} x {figure.baseline_name}"
        wanted = f"{side} {figure.goal:g} x"
    return (figure.name, measured, wanted, "yes" if figure.is_met else "**missed**")


def _row(figure: Figure) -> tuple[str, ...]:
    value = _quantity(figure.value, figure.unit)
    if figure.baseline is None:
        return (figure.name, value, "", "")
    baseline = f"{_quantity(figure.baseline, figure.unit)}, {figure.baseline_name}"
    ratio = "" if figure.ratio is None else _number(figure.ratio)
    return (figure.name, value, baseline, ratio)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(columns), ["---"] * len(columns), *map(list, rows)]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def _plain(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split()).replace("|", "\\|")
    return _number(value)


def _number(value: float) -> str:
    """Write a number with three digits that count."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _quantity(value: float, unit: str) -> str:
    number = f"{value:.4f}" if not unit and abs(value) <= 1 else _number(value)
    return f"{number} {unit}".strip()


def find_table(sections: Sequence[Section], title: str) -> Table | None:
    """Return the table of that title, if a section has it."""
    tables = (table for section in sections for table in section.tables)
    return next((table for table in tables if table.title == title), None)
