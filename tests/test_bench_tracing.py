"""Rules of the trace benchmark: it measures everything and leaves nothing."""

import json
import subprocess
import sys
from pathlib import Path

from trace_samples import ROOT


def test_a_small_run_measures_everything_and_cleans_up(tmp_path: Path) -> None:
    """Each command has its seconds, ratio and memory, and the file is gone."""
    scratch, out = tmp_path / "scratch", tmp_path / "out.json"
    scratch.mkdir()
    page = tmp_path / "out.md"
    words = ["--size-mb", "1", "--repeats", "1", "--directory", str(scratch)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "eval.bench.bench_tracing", *words),
            *("--json", str(out), "--markdown", str(page)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    named = {one["command"] for one in result["readings"]}
    assert {"wc -l", "--report", "--check", "--misses"} < named
    assert all(one["seconds"] > 0 < one["peak_mib"] for one in result["readings"])
    assert len(result["writings"]) == 2
    assert page.read_text(encoding="utf-8") == done.stdout.removesuffix("\n")
    assert list(scratch.iterdir()) == []
