"""
Measure retrieval on labelled questions: ``python -m eval.run_eval --help``.

Without arguments it measures the fixture corpus, which needs no network and seconds.
"""

import argparse
import dataclasses
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs_rag.errors import DocsRagError
from eval.cases import GoldenError, read_golden
from eval.measuring import Run, measure, off_summary, summary
from eval.reporting import as_json, as_markdown

HERE = Path(__file__).resolve().parent
# Gates: argument, the number it bounds, whether from below.
_GATES = (
    ("min_recall", "recall@{k}", True),
    ("min_mrr", "mrr", True),
    ("min_passage", "passage@5", True),
    ("max_false_none", "false_none", False),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the evaluation; 1 where a gate is violated, 2 where it cannot be run."""
    arguments = _parser().parse_args(argv)
    command = "python -m eval.run_eval " + shlex.join(
        sys.argv[1:] if argv is None else argv
    )
    try:
        cases = read_golden(arguments.golden)
        with tempfile.TemporaryDirectory() as scratch:
            work = arguments.work or Path(scratch)
            runs = [
                measure(name, _environment(arguments, name, work), cases, arguments.k)
                for name in arguments.compare
            ]
        if arguments.commit:
            runs = [dataclasses.replace(run, commit=arguments.commit) for run in runs]
    except (GoldenError, DocsRagError) as error:
        print(f"eval: {error}", file=sys.stderr)
        return 2
    report = as_markdown(runs, command.strip(), ids_only=arguments.ids_only)
    if arguments.report:
        arguments.report.write_text(report, encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(as_json(runs, command), encoding="utf-8")
    print(report)
    broken = violations(runs[0], arguments)
    for line in broken:
        print(f"VIOLATION: {line}", file=sys.stderr)
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.run_eval", description=__doc__
    )
    parser.add_argument(
        *("--corpus-dir",),
        type=Path,
        default=HERE / "fixture" / "corpus",
        help="the documentation to index (default: the fixture)",
    )
    parser.add_argument("--name", default="fixture", help="its name in the report")
    parser.add_argument(
        "--roots",
        nargs="+",
        default=["docs"],
        help="the folders of it that are indexed (default: docs)",
    )
    parser.add_argument(
        "--golden",
        type=Path,
        default=HERE / "fixture" / "golden.jsonl",
        help="the labelled questions, one JSON object a line",
    )
    parser.add_argument("--k", type=int, default=10, help="hits asked for (default 10)")
    parser.add_argument(
        "--compare",
        type=lambda text: text.split(","),
        default=["builtin"],
        help="settings to measure, side by side: builtin, words (no model), stub, "
        "fastembed, openai, or fastembed=MODEL, openai=MODEL, fastembed=/model/folder",
    )
    parser.add_argument(
        "--work", type=Path, help="where indexes are kept from run to run"
    )
    parser.add_argument("--report", type=Path, help="write the report here too")
    parser.add_argument("--commit", help="of the corpus, where its folder cannot say")
    parser.add_argument(
        "--ids-only", action="store_true", help="quote no question in the report"
    )
    parser.add_argument("--json", type=Path, help="write everything measured here")
    for gate, number, is_least in _GATES:
        bound = "fail below" if is_least else "fail above"
        parser.add_argument(
            f"--{gate.replace('_', '-')}",
            type=float,
            help=f"{bound} this {number.format(k='K')} of the first setting",
        )
    parser.add_argument(
        "--recall-at", type=int, choices=(1, 3, 5, 10), default=5, help="K of the gate"
    )
    parser.add_argument(
        "--max-false-strong",
        type=float,
        help="fail above this share of unanswerable questions called strong",
    )
    parser.add_argument(
        "--min-refused",
        type=float,
        help="fail below this share of unanswerable questions called none",
    )
    return parser


def _environment(
    arguments: argparse.Namespace, setting: str, work: Path
) -> dict[str, str]:
    """Lay out a folder for one setting and return the variables that choose it."""
    backend, _, model = setting.partition("=")
    home = work / "".join(c if c.isalnum() else "-" for c in setting)
    home.mkdir(parents=True, exist_ok=True)
    corpus = {
        "corpus_dir": str(arguments.corpus_dir.resolve()),
        "data_dir": f"data-{arguments.name}",
        "roots": arguments.roots,
    }
    config = json.dumps({arguments.name: corpus})
    (home / "corpora.json").write_text(config, encoding="utf-8")
    kept = ("LMSTUDIO_BASE_URL", "LMSTUDIO_API_KEY", "PATH", "HOME")
    environ = {key: os.environ[key] for key in kept if key in os.environ}
    environ |= {
        "RAG_DIR": str(home),
        "RAG_CORPUS": arguments.name,
        "RAG_EMBED_BACKEND": backend,
    }
    if model:
        key = "EMBED_MODEL_PATH" if Path(model).is_dir() else "EMBED_MODEL"
        environ[key] = model
    return environ


def violations(run: Run, arguments: argparse.Namespace) -> list[str]:
    """Return every gate that this run does not pass."""
    numbers: Mapping[str, float] = summary(run.families()["all"])
    off = off_summary(run.off())
    checks = [
        (gate, name.format(k=arguments.recall_at), numbers, is_least)
        for gate, name, is_least in _GATES
    ]
    checks += [
        ("max_false_strong", "false_strong", off, False),
        ("min_refused", "none", off, True),
    ]
    broken = []
    for gate, name, values, is_least in checks:
        bound, value = getattr(arguments, gate), values[name]
        if bound is not None and (value < bound if is_least else value > bound):
            side = "under" if is_least else "over"
            broken.append(
                f"{name} is {value:.4f}, {side} --{gate.replace('_', '-')} {bound}"
            )
    return broken


if __name__ == "__main__":
    sys.exit(main())
