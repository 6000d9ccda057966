"""
Lines over two logarithmic axes as an SVG file. Pure, and the standard library only.

Colours follow the reader's light or dark scheme; every line is named at its end, so
that none is told by colour alone.
"""

import html
import math
from collections.abc import Mapping, Sequence

Series = Mapping[str, Sequence[tuple[float, float]]]

_WIDTH, _HEIGHT = 860, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 46, 52
_LABEL_GAP = 15.0
# Told apart by most people with a colour vision deficiency (Okabe and Ito), one set of
# shades for white and one for black.
_LIGHT = ("#0072b2", "#d55e00", "#00795a", "#b14a86", "#8a6d00", "#56606b", "#111111")
_DARK = ("#56b4e9", "#ff8c42", "#2ecc9a", "#e69ac9", "#f0d53c", "#a9b4c0", "#ffffff")


def log_chart(title: str, across: str, up: str, series: Series) -> str:
    """Return an SVG of ``series``, whose values must be above zero."""
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError("a chart needs at least one point")
    horizontal = _Axis([x for x, _ in points], _LEFT, _WIDTH - _RIGHT)
    vertical = _Axis([y for _, y in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<text class="title" x="{_LEFT}" y="24">{html.escape(title)}</text>',
        *_grid(horizontal, vertical),
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 12}" '
        f'text-anchor="middle">{html.escape(across)}</text>',
        f'<text transform="translate(18 {_HEIGHT / 2}) rotate(-90)" '
        f'text-anchor="middle">{html.escape(up)}</text>',
    ]
    ends = _spread_labels({n: vertical.at(s[-1][1]) for n, s in series.items()})
    for number, (name, line) in enumerate(series.items()):
        at = [(horizontal.at(x), vertical.at(y)) for x, y in line]
        parts += _line(number % len(_LIGHT), name, at, ends[name])
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{html.escape(title, quote=True)}">\n{_style()}\n'
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>\n{body}\n</svg>\n'
    )


class _Axis:
    """A logarithmic scale over whole decades, onto pixels."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        if min(values) <= 0:
            raise ValueError("a logarithmic axis has no place for zero")
        self.low = math.floor(math.log10(min(values)) + 1e-9)
        self.high = math.ceil(math.log10(max(values)) - 1e-9)
        self.high = max(self.high, self.low + 1)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    @property
    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _grid(horizontal: _Axis, vertical: _Axis) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for value in horizontal.decades:
        x = horizontal.at(value)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">'
            f"{_short(value)}</text>"
        )
    for value in vertical.decades:
        y = vertical.at(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_short(value)}</text>"
        )
    return parts


def _line(
    colour: int, name: str, at: Sequence[tuple[float, float]], label_y: float
) -> list[str]:
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
    x, y = at[-1]
    dots = [
        f'<circle class="c{colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in at
    ]
    lead = f"M{x:.1f} {y:.1f}L{x + 14:.1f} {label_y:.1f}"
    return [
        f'<path class="line s{colour}" d="{path}"/>',
        *dots,
        f'<path class="lead s{colour}" d="{lead}"/>',
        f'<text class="c{colour}" x="{x + 18:.1f}" y="{label_y + 4:.1f}">'
        f"{html.escape(name)}</text>",
    ]


def _spread_labels(wanted: Mapping[str, float]) -> dict[str, float]:
    """Move labels apart that would lie on each other, as little as is needed."""
    placed: dict[str, float] = {}
    last = -math.inf
    for name, y in sorted(wanted.items(), key=lambda item: item[1]):
        last = max(y, last + _LABEL_GAP)
        placed[name] = last
    # What was pushed below the chart goes up again, and pushes what is above it.
    limit = _HEIGHT - _BOTTOM
    for name in reversed(list(placed)):
        placed[name] = min(placed[name], limit)
        limit = placed[name] - _LABEL_GAP
    return placed


def _short(value: float) -> str:
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _style() -> str:
    def shades(colours: Sequence[str]) -> str:
        return "".join(
            f".s{n}{{stroke:{colour}}}.c{n}{{fill:{colour}}}"
            for n, colour in enumerate(colours)
        )

    return (
        "<style>text{font:12px system-ui,sans-serif;fill:#333}"
        ".title{font-size:15px;font-weight:600}.paper{fill:#fff}"
        ".grid{stroke:#ddd;fill:none}.line{fill:none;stroke-width:2}"
        f".lead{{fill:none;opacity:.6}}{shades(_LIGHT)}"
        "@media (prefers-color-scheme:dark){text{fill:#ccc}.paper{fill:#0d1117}"
        f".grid{{stroke:#30363d}}{shades(_DARK)}}}</style>"
    )
