"""
Measure retrieval on labelled questions: ``python -m eval.run_eval --help``.

Without arguments it measures the fixture corpus, which needs no network and seconds.
``docs-rag eval`` does the same for a corpus that is configured.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from docs_rag.errors import EXIT_USAGE, DocsRagError
from docs_rag.evaloptions import add_options
from docs_rag.evaluation import Subject, evaluate

FIXTURE = Path(__file__).resolve().parent / "fixture"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the evaluation; 1 where a gate is violated, 2 where it cannot be run."""
    words = sys.argv[1:] if argv is None else list(argv)
    arguments = _parser().parse_args(words)
    kept = ("LMSTUDIO_BASE_URL", "LMSTUDIO_API_KEY", "PATH", "HOME")
    subject = Subject(
        name=arguments.name,
        entry={
            "corpus_dir": str(arguments.corpus_dir.resolve()),
            "roots": arguments.roots,
        },
        environ={key: os.environ[key] for key in kept if key in os.environ},
        setting="builtin",
    )
    command = f"python -m eval.run_eval {shlex.join(words)}".strip()
    try:
        return evaluate(arguments, subject, command, sys.stdout, sys.stderr)
    except DocsRagError as error:
        print(f"eval: {error}", file=sys.stderr)
        return EXIT_USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.run_eval", description=__doc__
    )
    parser.add_argument(
        *("--corpus-dir",),
        type=Path,
        default=FIXTURE / "corpus",
        help="the documentation to index (default: the fixture)",
    )
    parser.add_argument("--name", default="fixture", help="its name in the report")
    parser.add_argument(
        "--roots",
        nargs="+",
        default=["docs"],
        help="the folders of it that are indexed (default: docs)",
    )
    add_options(parser, golden=FIXTURE / "golden.jsonl", compare=["builtin"])
    return parser


if __name__ == "__main__":
    sys.exit(main())
