"""
What the trace commands are told by variables, and how their numbers are read.

A number that is none is an error that names where it stands; it never quietly becomes
no limit.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from docs_rag.errors import ConfigError
from docs_rag.tracecheck import Prices
from docs_rag.variables import expand_home, open_sources

DEFAULT_KEEP_DAYS = 14
_MAX_DAYS = 36_500
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})", re.ASCII)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The variables of the trace commands, read once."""

    directory: Path
    keep_days: float
    prices: Prices
    cost_alert_usd: float | None
    export_headers: str


def load_trace_settings(environ: Mapping[str, str]) -> TraceSettings:
    """Read the variables from ``environ``, completed by ``.env`` in ``RAG_DIR``."""
    sources = open_sources(environ, {})

    def text(name: str) -> str:
        return environ.get(name, "").strip() or sources.dotenv.get(name, "").strip()

    def value(name: str, read: Callable[[str], _Value]) -> _Value | None:
        try:
            return read(text(name)) if text(name) else None
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error

    keep_days = value("RAG_TRACE_KEEP_DAYS", days)
    return TraceSettings(
        directory=sources.rag_dir
        / expand_home(text("RAG_TRACE_DIR") or "logs", sources.home),
        keep_days=DEFAULT_KEEP_DAYS if keep_days is None else keep_days,
        prices=Prices(
            value("RAG_PRICE_INPUT_PER_MTOK", number),
            value("RAG_PRICE_OUTPUT_PER_MTOK", number),
        ),
        cost_alert_usd=value("RAG_COST_ALERT_USD", number),
        export_headers=text("OTEL_EXPORTER_OTLP_HEADERS"),
    )


def number(text: str) -> float:
    """Read a number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{text!r} is not a number from 0 upwards, such as 0.15")
    return value


def share(text: str) -> float:
    """Read a share."""
    if not text.strip() or (value := number(text)) > 1:
        raise ValueError(f"{text!r} is not a share from 0 to 1, such as 0.1 for 10 %")
    return value


def whole(text: str) -> int:
    """Read a whole number that is not negative."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise ValueError(f"{text!r} is not a whole number from 0 upwards")
    return int(text)


def days(text: str) -> float:
    """Read a number of days."""
    value = number(text)
    if value > _MAX_DAYS:
        raise ValueError(f"{text!r} days is more than {_MAX_DAYS}")
    return value


def zone(text: str) -> tzinfo:
    """Read a time zone: a name of the time zone database, an offset, or ``local``."""
    offset = _OFFSET.fullmatch(text)
    try:
        if offset is not None:
            minutes = int(offset[2]) * 60 + int(offset[3])
            return timezone(
                timedelta(minutes=-minutes if offset[1] == "-" else minutes)
            )
        if text == "local":
            return datetime.now(UTC).astimezone().tzinfo or UTC
        return UTC if text in ("UTC", "Z") else ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"{text!r} is no time zone: write a name such as Asia/Taipei (needs the "
            "system's time zone database), or an offset such as +08:00"
        ) from error
