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

# About the pixels a chart gets on the page, so that text keeps its size.
_WIDE = 1000
_NARROW = 480
_HEIGHT = 220
_LEFT = 52
_RIGHT = 12
_TOP = 10
_BOTTOM = 26
_FLOOR = _HEIGHT - _BOTTOM
_PLOT_HEIGHT = _FLOOR - _TOP
_MAX_DOTS = 60
_MAX_BAR_WIDTH = 48.0
MAX_BARS = 120


def escape(text: object) -> str:
    """Return text that is safe anywhere in the page."""
    return html.escape(printable(str(text)))


def latency_chart(points: Sequence[GroupStats], minutes: int) -> str:
    """Draw the median and the 95th percentile over time."""
    starts = [datetime.fromisoformat(point.name) for point in points]
    step = timedelta(minutes=minutes)
    slot = _plot_width(_WIDE) * (step / (starts[-1] - starts[0] + step))
    xs = [_LEFT + slot * ((start - starts[0]) / step + 0.5) for start in starts]
    top = _nice_top(max(point.p95_ms or 0.0 for point in points))
    marks = _grid(top, _WIDE)
    for css in ("p95", "p50"):
        values = [getattr(point, f"{css}_ms") or 0.0 for point in points]
        marks += _curve(css, xs, [_y(value, top) for value in values], slot)
    for x, point in zip(xs, points, strict=True):
        title = (
            f"{point.name}: p50 {point.p50_ms:.1f} ms, p95 {point.p95_ms:.1f} ms, "
            f"{point.calls:,} calls"
        )
        marks.append(_titled(title, _bar("hover", x, slot, _PLOT_HEIGHT)))
    labels = [_time_label(start, minutes) for start in starts]
    return _chart("Latency over time", _WIDE, [*marks, *_x_axis(xs, labels, _WIDE)])


def volume_chart(days: Sequence[GroupStats]) -> str:
    """Draw calls and errors per day."""
    top = _nice_top(max(day.calls for day in days))
    xs, width = _columns(len(days))
    marks = _grid(top, _NARROW)
    for x, day in zip(xs, days, strict=True):
        bars = _bar("calls", x, width, _PLOT_HEIGHT * day.calls / top)
        if day.errors:
            # One error among a thousand calls must still be seen.
            height = max(_PLOT_HEIGHT * day.errors / top, 2.0)
            bars += _bar("errors", x, width, height)
        title = f"{day.name}: {day.calls:,} calls, {day.errors:,} errors"
        marks.append(_titled(title, bars))
    labels = [day.name[5:] for day in days]
    return _chart("Calls per day", _NARROW, [*marks, *_x_axis(xs, labels, _NARROW)])


def verdict_chart(days: Sequence[GroupStats]) -> str:
    """Draw the share of each verdict per day."""
    xs, width = _columns(len(days))
    marks = _grid(100.0, _NARROW, unit="%")
    for x, day in zip(xs, days, strict=True):
        counts = {"strong": day.strong, "weak": day.weak, "none": day.none}
        judged = sum(counts.values())
        floor = 0.0
        for css, count in counts.items():
            height = _PLOT_HEIGHT * count / judged if judged else 0.0
            title = f"{day.name}: {css} {count:,} of {judged:,}"
            marks.append(_titled(title, _bar(css, x, width, height, floor)))
            floor += height
    labels = [day.name[5:] for day in days]
    return _chart("Verdicts per day", _NARROW, [*marks, *_x_axis(xs, labels, _NARROW)])


def _chart(label: str, width: int, marks: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {_HEIGHT}" role="img" aria-label="{label}">'
        + "".join(marks)
        + "</svg>"
    )


def _titled(title: str, mark: str) -> str:
    return f"<g><title>{escape(title)}</title>{mark}</g>"


def _bar(css: str, x: float, width: float, height: float, floor: float = 0.0) -> str:
    return (
        f'<rect class="{css}" x="{x - width / 2:.2f}" width="{width:.2f}" '
        f'y="{_FLOOR - floor - height:.2f}" height="{height:.2f}"/>'
    )


def _curve(
    css: str, xs: Sequence[float], ys: Sequence[float], slot: float
) -> list[str]:
    """Return lines and dots; a line over a gap would claim calls that were not."""
    paths: list[str] = []
    for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if index and x - xs[index - 1] < slot * 1.5:
            paths[-1] += f"L{x:.1f} {y:.1f}"
        else:
            paths.append(f"M{x:.1f} {y:.1f}")
    marks = [f'<path class="line {css}" d="{path}"/>' for path in paths]
    if len(xs) <= _MAX_DOTS or len(paths) > 1:
        marks += [
            f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
            for x, y in zip(xs, ys, strict=True)
        ]
    return marks


def _columns(number: int) -> tuple[list[float], float]:
    """Return the middles of that many bars, and their width."""
    slot = _plot_width(_NARROW) / number
    middles = [_LEFT + slot * (index + 0.5) for index in range(number)]
    return middles, min(slot * 0.8, _MAX_BAR_WIDTH)


def _plot_width(width: int) -> int:
    return width - _LEFT - _RIGHT


def _y(value: float, top: float) -> float:
    return _FLOOR - _PLOT_HEIGHT * value / top


def _grid(top: float, width: int, unit: str = "") -> list[str]:
    """Return horizontal lines with their values."""
    marks = []
    for part in range(5):
        value = top * part / 4
        y = _y(value, top)
        marks.append(
            f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" '
            f'text-anchor="end">{value:,.6g}{unit}</text>'
        )
    return marks


def _x_axis(xs: Sequence[float], labels: Sequence[str], width: int) -> list[str]:
    """Return as many labels as fit side by side."""
    marks = []
    free_from = 0.0
    for x, label in zip(xs, labels, strict=True):
        if x >= free_from and x + 4.5 * len(label) <= width:
            marks.append(
                f'<text class="axis" x="{x:.1f}" y="{_HEIGHT - 8}" '
                f'text-anchor="middle">{escape(label)}</text>'
            )
            free_from = x + 9.0 * len(label) + 12.0
    return marks


def _time_label(start: datetime, minutes: int) -> str:
    return start.strftime("%m-%d" if minutes >= 1_440 else "%m-%d %H:%M")


def _nice_top(highest: float) -> float:
    """Return a round number that is at least ``highest``, divisible by four."""
    if highest <= 0:
        return 4.0
    unit = 10.0 ** math.floor(math.log10(highest))
    return next(unit * n for n in (1, 2, 4, 6, 8, 10, 20) if unit * n >= highest)
