"""The load bench runs, and its ratios are what they say."""

import json
import subprocess
import sys

import project as kit


def test_bench_compares_served_calls_with_calls_in_process(tmp_path):
    """A short run over a small folder writes each round with its own baseline."""
    project = kit.make_project(tmp_path / "docs-of-something")
    out = tmp_path / "server.json"
    done = subprocess.run(
        [
            *(sys.executable, str(kit.ROOT / "eval" / "bench" / "bench_server.py")),
            *("--backend", "stub", "--calls", "32", "--port", str(kit.free_port())),
            *("--out", str(out), str(project.corpus_dir)),
        ],
        env=project.variables(RAG_DIR=None, RAG_CORPUS=None),
        capture_output=True,
        text=True,
        timeout=kit.PATIENCE_SECONDS * 3,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())

    assert [one["clients"] for one in result["rounds"]] == [1, 8, 32]
    for one in result["rounds"]:
        served, base = one["served"], one["in_process"]
        assert one["p50_ratio"] == round(served["p50_ms"] / base["p50_ms"], 2)
        assert served["p50_ms"] <= served["p95_ms"]
    assert done.stdout.count("\n") == 5
