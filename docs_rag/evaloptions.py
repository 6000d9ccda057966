"""
The arguments of an evaluation, alike for every door to it, and the gates among them.

Light to import: the command line's help needs it.
"""

import argparse
from pathlib import Path

# Gates over answerable questions: argument, the number it bounds, whether from below.
GATES = (
    ("min_recall", "recall@{k}", True),
    ("min_mrr", "mrr", True),
    ("min_passage", "passage@5", True),
    ("max_false_none", "false_none", False),
)


def add_options(
    parser: argparse.ArgumentParser, *, golden: Path | None, compare: list[str] | None
) -> None:
    """Add what every evaluation takes; ``golden`` and ``compare`` are the defaults."""
    parser.add_argument(
        "--golden",
        type=Path,
        default=golden,
        required=golden is None,
        metavar="FILE",
        help="the labelled questions, one JSON object a line",
    )
    parser.add_argument(
        "--k", type=int, default=10, help="hits asked for (default: %(default)s)"
    )
    parser.add_argument(
        "--compare",
        type=lambda text: text.split(","),
        default=compare,
        metavar="A,B",
        help="settings to measure, side by side: builtin, words (no model), stub, "
        "fastembed, openai, or fastembed=MODEL, openai=MODEL, fastembed=/model/folder",
    )
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="where indexes are kept from run to run (default: they are not)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the report here too"
    )
    parser.add_argument(
        "--commit", metavar="ID", help="of the corpus, where its folder cannot say"
    )
    parser.add_argument(
        "--ids-only", action="store_true", help="quote no question in the report"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything measured here"
    )
    _add_gates(parser)


def _add_gates(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("gates, held against the first setting")
    for gate, number, is_least in GATES:
        bound = "fail below" if is_least else "fail above"
        group.add_argument(
            f"--{gate.replace('_', '-')}",
            type=float,
            metavar="X",
            help=f"{bound} this {number.format(k='K')}",
        )
    group.add_argument(
        "--recall-at", type=int, choices=(1, 3, 5, 10), default=5, help="K of the gate"
    )
    group.add_argument(
        "--max-false-strong",
        type=float,
        metavar="X",
        help="fail above this share of unanswerable questions called strong",
    )
    group.add_argument(
        "--min-refused",
        type=float,
        metavar="X",
        help="fail below this share of unanswerable questions called none",
    )
