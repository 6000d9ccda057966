"""
The command line of the traces: ``python tracing.py`` and ``docs-rag trace``.

It needs the standard library and the files it is given: no model, no corpus. A
setting comes from a flag, else from the environment, else from ``.env`` in
``RAG_DIR``.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

from docs_rag.errors import (
    EXIT_DONE,
    EXIT_REFUSED,
    EXIT_USAGE,
    ConfigError,
    DocsRagError,
    StorageError,
)
from docs_rag.tracecheck import Limits, Prices, violations
from docs_rag.traceexport import Exported, export_file, export_http, parse_headers
from docs_rag.tracefile import replacing
from docs_rag.tracehtml import report_html
from docs_rag.tracemisses import collect_misses
from docs_rag.traceprune import prune_directory, prune_file
from docs_rag.tracereader import FileTally, trace_files
from docs_rag.tracesettings import (
    TraceSettings,
    days,
    load_trace_settings,
    number,
    share,
    whole,
    zone,
)
from docs_rag.tracestats import Report, Summary, summarise
from docs_rag.tracetext import (
    check_json,
    check_text,
    misses_json,
    misses_text,
    prune_text,
    report_json,
    report_text,
)
from docs_rag.tracing import printable
