"""Rules of the page: everything drawn, nothing loaded, nothing believed."""

import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_samples import NOW, make_line

from docs_rag.tracecheck import Prices
from docs_rag.tracehtml import report_html
from docs_rag.tracereader import FileTally, parse_record
from docs_rag.tracestats import Summary

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1100,900",
)
VOID = {"meta", "line", "rect", "circle", "path", "br"}


class Page(HTMLParser):
    """The page as a browser sees it: tags in balance, texts, classes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == [], "tags left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def marks(self, css: str) -> list[dict[str, str | None]]:
        """Return the rectangles of a class."""
        return [a for tag, a in self.tags if tag == "rect" and a.get("class") == css]


def page_of(lines: Sequence[str], **options: Any) -> str:
    summary = Summary(**options)
    for line in lines:
        record = parse_record(line.encode())
        assert record is not None
        summary.add(record)
    tally = FileTally("logs/traces-a.jsonl", records=len(lines), unreadable=4)
    return report_html(summary.report([tally]), Prices(input_per_mtok=1.0), NOW)


def busy_week() -> list[str]:
    lines = []
    for hour in range(7 * 24):
        ago = timedelta(hours=hour)
        lines += [
            make_line(ago=ago, duration_ms=20 + hour % 24, match="strong"),
            make_line(ago=ago, duration_ms=400, match="weak" if hour % 3 else "none"),
        ]
    lines.append(make_line(ago=timedelta(days=2), **{"error.type": "QueryError"}))
    return lines


def test_the_page_shows_every_figure() -> None:
    """Cards, three charts, tables of tools, slow calls, errors, days and files."""
    page = Page(page_of(busy_week()))

    headings = ["Latency over time", "Calls and errors per day", "Verdicts per day"]
    tables = ["Latency by tool", "Slowest calls", "Errors by type", "Files read"]
    for words in [*headings, *tables, "QueryError", "logs/traces-a.jsonl", "337"]:
        assert words in page.text, words
    assert "Percentiles: nearest rank, exact" in page.text
    assert len([tag for tag, _ in page.tags if tag == "svg"]) == 3
    assert len(page.marks("calls")) == 8
    assert len(page.marks("errors")) == 1
    assert len(page.marks("strong")) == len(page.marks("none")) == 8
    lines = [a for tag, a in page.tags if tag == "path"]
    assert [a["class"] for a in lines] == ["line p95", "line p50"]


def test_bars_are_as_high_as_their_numbers() -> None:
    """A day with twice the calls has a bar of twice the height."""
    lines = [make_line()] * 30 + [make_line(ago=timedelta(days=1))] * 60
    yesterday, today = (
        float(bar["height"] or "") for bar in Page(page_of(lines)).marks("calls")
    )

    assert yesterday == pytest.approx(2 * today, rel=0.01)


def test_a_day_without_calls_has_its_place() -> None:
    """Days between calls are drawn empty: an outage must not vanish."""
    lines = [make_line(), make_line(ago=timedelta(days=4))]

    heights = [bar["height"] for bar in Page(page_of(lines)).marks("calls")]

    assert [height == "0.00" for height in heights] == [False, True, True, True, False]


def test_a_line_is_not_drawn_over_a_gap() -> None:
    """Where no call was, the curve is broken and its points are marked."""
    lines = [make_line(ago=timedelta(minutes=m)) for m in (0, 1, 2, 40, 41, 42)]
    page = Page(page_of(lines))

    paths = [a["d"] or "" for tag, a in page.tags if tag == "path"]
    assert len(paths) == 4 and all(path.count("L") == 2 for path in paths)
    assert len([tag for tag, _ in page.tags if tag == "circle"]) == 12


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [make_line()],
        [make_line(duration_ms=0.0)],
        [make_line().replace("2031", "when")],
        [make_line(ago=timedelta(days=400 * n)) for n in range(6)],
        [make_line(duration_ms=1e15)],
    ],
    ids=["none", "one", "zero", "undated", "years", "huge"],
)
def test_any_report_makes_a_page(lines: list[str]) -> None:
    """No calls, one call or odd ones: the page stands and its numbers are finite."""
    html = page_of(lines)

    Page(html)
    assert not re.search(r"\b(nan|inf)\b", html)


HOSTILE = (
    "<script>alert(1)</script>\"'><img src=http://x.example/ onerror=a()>&\u202e\x1b"
)


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=30) | st.just(HOSTILE))
def test_nothing_in_a_record_becomes_markup(text: str) -> None:
    """Whatever a record or a file name holds, the page has the same tags."""

    def tags(text: str) -> list[str]:
        line = make_line(
            tool=text or "x",
            caller=text,
            corpus=text,
            **{"query.sha256": text, "error.type": text},
        ).replace('"docs_rag.query.sha256"', '"gen_ai.retrieval.query.text"')
        record = parse_record(line.encode())
        assert record is not None
        summary = Summary()
        summary.add(record)
        report = summary.report([FileTally(text, problem=text or None)])
        html = report_html(report, Prices(), NOW)
        assert "\x1b" not in html and "\u202e" not in html
        return [tag for tag, _ in Page(html).tags]

    assert tags(text) == tags("harmless")


def test_the_page_loads_nothing() -> None:
    """No script, no link, no address: and a policy that forbids them."""
    html = page_of(busy_week())
    page = Page(html)

    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert any(a.get("content") == policy for tag, a in page.tags if tag == "meta")
    assert not {"script", "link", "img", "iframe", "a"} & {tag for tag, _ in page.tags}
    for forbidden in ("http:", "https:", "url(", "@import", "src=", "href="):
        assert forbidden not in html


def pixels(path: Path) -> Any:
    """Unpack an 8-bit RGB(A) PNG into height x width x RGB; enough for a screenshot."""
    data = path.read_bytes()
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    size = {2: 3, 6: 4}[colour]
    assert depth == 8
    packed, position = b"", 8
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        if data[position + 4 : position + 8] == b"IDAT":
            packed += data[position + 8 : position + 8 + length]
        position += length + 12
    filtered = np.frombuffer(zlib.decompress(packed), np.uint8)
    rows = filtered.reshape(height, width * size + 1)
    image = np.zeros((height + 1, width * size), np.uint8)
    for y, row in enumerate(rows, start=1):
        if row[0] == 2:
            image[y] = row[1:] + image[y - 1]
        elif row[0] == 1:
            image[y] = row[1:].reshape(width, size).cumsum(0, np.uint8).ravel()
        else:
            image[y] = unfilter(row.tolist(), image[y - 1].tolist(), size)
    return image[1:].reshape(height, width, size)[:, :, :3]


def unfilter(row: list[int], above: list[int], size: int) -> list[int]:
    """Undo the filters of a row that look at the pixel to the left."""
    kind, line = row[0], row[1:]
    for i, up in enumerate(above):
        left = line[i - size] if i >= size else 0
        if kind == 3:
            line[i] = (line[i] + (left + up) // 2) & 255
        elif kind == 4:
            corner = above[i - size] if i >= size else 0
            guess = left + up - corner
            near = min((left, up, corner), key=lambda value: abs(guess - value))
            line[i] = (line[i] + near) & 255
    return line


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
@pytest.mark.parametrize(
    ("scheme", "page_colour", "line_colour", "bar_colour"),
    [
        ("1", "ffffff", "bc4c00", "54aeff"),
        ("0", "0d1117", "f0883e", "1f6feb"),
    ],
    ids=["light", "dark"],
)
def test_a_browser_draws_the_page(
    scheme: str, page_colour: str, line_colour: str, bar_colour: str, tmp_path: Path
) -> None:
    """In either colour scheme a browser shows page, curves and bars."""
    page, shot = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(page_of(busy_week()), encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--screenshot={shot}",
            page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert shot.exists(), done.stderr[-500:]

    image = pixels(shot)

    def count(colour: str) -> int:
        return int((image == list(bytes.fromhex(colour))).all(axis=2).sum())

    assert image.shape == (900, 1100, 3)
    assert bytes(image[0, 0]).hex() == page_colour
    assert count(line_colour) > 100
    assert count(bar_colour) > 5_000
