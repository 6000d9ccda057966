"""What a run was made on: without it an absolute time says nothing."""

import datetime
import os
import platform
import subprocess
from pathlib import Path

import apsw
import numpy as np
import sqlite_vec

from docs_rag import __version__
from docs_rag.backend import usable_cores

_ROOT = Path(__file__).resolve().parents[2]


def describe() -> dict[str, object]:
    """Describe this machine, its load now, and what runs on it."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": usable_cores(),
        "memory": f"{memory / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sqlite": apsw.sqlite_lib_version(),
        "sqlite-vec": sqlite_vec.__version__,
        "load average at the start": ", ".join(f"{x:.2f}" for x in os.getloadavg()),
        "docs-rag": __version__,
        "commit": _commit(),
        "date": datetime.date.today().isoformat(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return _said(command) or platform.processor() or "unknown"
    named = (line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    return next(named, platform.processor() or "unknown")


def _commit() -> str:
    commit = _said(["git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"])
    changed = _said(["git", "-C", str(_ROOT), "status", "--porcelain"])
    return (commit or "unknown") + (" with changes" if changed else "")


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
