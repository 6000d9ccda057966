"""
The charts of the HTML report, as inline SVG.

Colours come from the page's style sheet by class name, so that one drawing serves
light and dark. Every mark carries its numbers as a title, for a pointer or a screen
reader.
"""

import html
import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from docs_rag.tracestats import GroupStats
from docs_rag.tracing import printable

_WIDTH = 720
_HEIGHT = 240
_LEFT = 56
_RIGHT = 12
_TOP = 12
_BOTTOM = 28
_PLOT_WIDTH = _WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT = _HEIGHT - _TOP - _BOTTOM
_X_LABELS = 7
_MAX_DOTS = 80
MAX_BARS = 120


def escape(text: object) -> str:
    """Return text that is safe anywhere in the page."""
    return html.escape(printable(str(text)))


def latency_chart(points: Sequence[GroupStats], minutes: int) -> str:
    """Draw the median and the 95th percentile over time."""
    starts = [datetime.fromisoformat(point.name) for point in points]
    step = timedelta(minutes=minutes)
    span = (starts[-1] - starts[0]) + step
    xs = [_LEFT + (s - starts[0] + step / 2) / span * _PLOT_WIDTH for s in starts]
    top = _nice_top(max(point.p95_ms or 0.0 for point in points))
    marks = []
    for css, label, values in (
        ("p95", "p95", [point.p95_ms or 0.0 for point in points]),
        ("p50", "p50", [point.p50_ms or 0.0 for point in points]),
    ):
        ys = [_y(value, top) for value in values]
        marks += [
            f'<path class="line {css}" d="{path}"/>'
            for path in _paths(xs, ys, starts, step)
        ]
        if len(points) <= _MAX_DOTS:
            marks += [
                f'<circle class="dot {css}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
                f"<title>{point.name}: {label} {value:.1f} ms, "
                f"{point.calls:,} calls</title></circle>"
                for x, y, value, point in zip(xs, ys, values, points, strict=True)
            ]
    labels = [_time_label(start, minutes) for start in starts]
    return _chart("Latency over time", [*_grid(top), *marks, *_x_axis(xs, labels)])


def volume_chart(days: Sequence[GroupStats]) -> str:
    """Draw calls and errors per day."""
    top = _nice_top(max(day.calls for day in days))
    slot = _PLOT_WIDTH / len(days)
    width = min(slot * 0.8, 48.0)
    xs = [_LEFT + slot * (index + 0.5) for index in range(len(days))]
    marks = []
    for x, day in zip(xs, days, strict=True):
        title = f"{escape(day.name)}: {day.calls:,} calls, {day.errors:,} errors"
        height = _PLOT_HEIGHT * day.calls / top
        # One error among a thousand calls must still be seen.
        failed = max(_PLOT_HEIGHT * day.errors / top, 2.0) if day.errors else 0.0
        marks.append(
            f"<g><title>{title}</title>"
            + _bar("calls", x - width / 2, width, height)
            + (_bar("errors", x - width / 2, width, failed) if failed else "")
            + "</g>"
        )
    labels = [day.name[5:] for day in days]
    return _chart("Calls per day", [*_grid(top), *marks, *_x_axis(xs, labels)])


def verdict_chart(days: Sequence[GroupStats]) -> str:
    """Draw the share of each verdict per day."""
    slot = _PLOT_WIDTH / len(days)
    width = min(slot * 0.8, 48.0)
    xs = [_LEFT + slot * (index + 0.5) for index in range(len(days))]
    marks = []
    for x, day in zip(xs, days, strict=True):
        counts = {"strong": day.strong, "weak": day.weak, "none": day.none}
        judged = sum(counts.values())
        bottom = 0.0
        for css, count in counts.items():
            height = _PLOT_HEIGHT * count / judged if judged else 0.0
            if count:
                title = f"{escape(day.name)}: {css} {count:,} of {judged:,}"
                marks.append(
                    f"<g><title>{title}</title>"
                    + _bar(css, x - width / 2, width, height, bottom)
                    + "</g>"
                )
            bottom += height
    labels = [day.name[5:] for day in days]
    grid = _grid(100.0, unit="%")
    return _chart("Verdicts per day", [*grid, *marks, *_x_axis(xs, labels)])


def _chart(label: str, marks: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        + "".join(marks)
        + "</svg>"
    )


def _bar(css: str, x: float, width: float, height: float, bottom: float = 0.0) -> str:
    y = _HEIGHT - _BOTTOM - bottom - height
    return (
        f'<rect class="{css}" x="{x:.2f}" y="{y:.2f}" '
        f'width="{width:.2f}" height="{height:.2f}"/>'
    )


def _paths(
    xs: Sequence[float],
    ys: Sequence[float],
    starts: Sequence[datetime],
    step: timedelta,
) -> list[str]:
    """Return a path per stretch of calls: a line over a gap would claim some."""
    paths: list[str] = []
    for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if index and starts[index] - starts[index - 1] == step:
            paths[-1] += f"L{x:.1f} {y:.1f}"
        else:
            paths.append(f"M{x:.1f} {y:.1f}")
    return [path for path in paths if "L" in path]


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - _PLOT_HEIGHT * value / top


def _grid(top: float, unit: str = "") -> list[str]:
    """Return horizontal lines with their values."""
    marks = []
    for part in range(5):
        value = top * part / 4
        y = _y(value, top)
        marks.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" '
            f'text-anchor="end">{value:,.6g}{unit}</text>'
        )
    return marks


def _x_axis(xs: Sequence[float], labels: Sequence[str]) -> list[str]:
    every = math.ceil(len(labels) / _X_LABELS)
    return [
        f'<text class="axis" x="{x:.1f}" y="{_HEIGHT - 8}" '
        f'text-anchor="middle">{escape(label)}</text>'
        for x, label in list(zip(xs, labels, strict=True))[::every]
    ]


def _time_label(start: datetime, minutes: int) -> str:
    return start.strftime("%m-%d" if minutes >= 1_440 else "%m-%d %H:%M")


def _nice_top(highest: float) -> float:
    """Return a round number that is at least ``highest``, divisible by four."""
    if highest <= 0:
        return 4.0
    unit = 10.0 ** math.floor(math.log10(highest))
    return next(unit * n for n in (1, 2, 4, 6, 8, 10, 20) if unit * n >= highest)
