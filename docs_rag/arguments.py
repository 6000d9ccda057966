"""
The command line as a parser: verbs, flags and their help, and nothing that acts.

A flag that overrides a setting carries the setting's name, so the two cannot drift.
"""

import argparse
from pathlib import Path
from typing import Any

from docs_rag import __version__
from docs_rag.config import Backend, Transport
from docs_rag.evaloptions import add_options
from docs_rag.variables import SETTING_VARIABLES

PROG = "docs-rag"
# Listed here and not imported: ``retrieval`` is slow to import, ``--help`` is not.
DEFAULT_K = 5
MAX_K = 20
DEFAULT_DRAFTS = 60
DEFAULT_BENCH_QUESTIONS = 50

_EPILOG = """\
Settings come from flags, then the environment, then <RAG_DIR>/.env, then
corpora.json. `docs-rag check-config` shows what is in force, and why.

exit codes: 0 done, 1 refused or violated, 2 usage or configuration,
75 another indexer holds the lock
"""


def overrides_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that flags override; None where a flag was not given."""
    return {
        name: getattr(arguments, name)
        for name in SETTING_VARIABLES
        if hasattr(arguments, name)
    }


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of ``docs-rag``; the verb is in ``arguments.verb``."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Retrieval over a repository's current documentation.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="show tracebacks instead of messages"
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_init(_verb(verbs, "init", "write a corpora.json for a folder of markdown"))
    _add_index(_verb(verbs, "index", "build or refresh the index of a corpus"))
    _add_query(_verb(verbs, "query", "ask a corpus from the shell"))
    _add_status(_verb(verbs, "status", "say what an index holds and how fresh it is"))
    _add_serve(_verb(verbs, "serve", "serve a corpus to agents over MCP"))
    _add_probe(_verb(verbs, "probe", "check a running server from end to end"))
    _add_clients(_verb(verbs, "clients", "print what to paste into coding agents"))
    _add_check_config(_verb(verbs, "check-config", "show the settings in force"))
    _add_preflight(_verb(verbs, "preflight", "say whether serve may bind so"))
    _add_refresh(_verb(verbs, "refresh", "fetch a git-backed corpus, then index it"))
    _add_snapshot(_verb(verbs, "snapshot", "copy a live index to one file"))
    _add_restore(_verb(verbs, "restore", "put a snapshot in the place of an index"))
    _add_doctor(_verb(verbs, "doctor", "say what is wrong with a corpus or an index"))
    _add_eval(_verb(verbs, "eval", "measure retrieval on labelled questions"))
    _add_bench(_verb(verbs, "bench", "time questions on an index, stage by stage"))
    _add_golden(_verb(verbs, "golden", "draft labelled questions from a corpus"))
    _add_scope(_verb(verbs, "scope", "print the declared scope for machines"))
    trace = verbs.add_parser(
        "trace",
        help="report on, check, export and prune traces",
        add_help=False,
        allow_abbrev=False,
    )
    trace.add_argument("rest", nargs=argparse.REMAINDER)
    return parser


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    return verbs.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
    )


def _add_place(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("settings")
    _setting(group, "rag_dir", metavar="DIR", help="folder of corpora.json and indexes")
    _setting(group, "corpus", metavar="NAME", help="the corpus to work on")
    _setting(group, "corpus_dir", metavar="DIR", help="where its markdown lives")


def _add_embedding(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("embedding")
    _setting(
        group,
        "backend",
        choices=[backend.value for backend in Backend],
        help="which embedder turns text into vectors",
    )
    _setting(group, "embed_model", metavar="MODEL", help="model of the backend")
    _setting(
        group,
        "embed_model_path",
        metavar="DIR",
        help="local folder with an ONNX model, for fastembed",
    )
    _setting(group, "base_url", metavar="URL", help="endpoint, for openai")


def _setting(group: Any, name: str, **options: Any) -> None:
    variable = SETTING_VARIABLES[name]
    options["help"] += f" ({variable})"
    group.add_argument(f"--{name.replace('_', '-')}", dest=name, **options)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for machines")


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="the folder or repository")
    parser.add_argument("--name", help="name of the corpus (default: of the folder)")
    parser.add_argument(
        "--replace", action="store_true", help="overwrite a corpus of that name"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the entry and write nothing"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask before writing on a terminal"
    )
    _setting(
        parser.add_argument_group("settings"),
        "rag_dir",
        metavar="DIR",
        help="folder of corpora.json",
    )


def _add_index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--full", action="store_true", help="rebuild beside the old index, then swap"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the plan and write nothing"
    )
    parser.add_argument(
        "--allow-shrink",
        action="store_true",
        help="purge even if that is more than half of the indexed files",
    )
    parser.add_argument(
        "--watch", action="store_true", help="go on, and index again at every change"
    )
    _add_json(parser)
    _add_place(parser)
    _add_embedding(parser)


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "query", nargs="*", help="the question; read from standard input if left out"
    )
    parser.add_argument(
        "-k",
        type=int,
        default=DEFAULT_K,
        help=f"at most this many passages, 1 to {MAX_K} (default: %(default)s)",
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="TEXT",
        help="another phrasing of the question; may be given up to 8 times",
    )
    parser.add_argument(
        "--max-chars", type=int, help="at most this much quoted text (default: 8000)"
    )
    parser.add_argument(
        "--all", action="store_true", help="quote passages even if match is none"
    )
    parser.add_argument(
        "--explain", action="store_true", help="add the terms behind rank and verdict"
    )
    _add_json(parser)
    _add_place(parser)
    _add_embedding(parser)


def _add_status(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)
    _add_place(parser)
    _add_embedding(parser)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch", action="store_true", help="keep the index up to date as well"
    )
    _add_binding(parser)
    group = parser.add_argument_group("presentation")
    _setting(group, "server_name", metavar="NAME", help="name shown to clients")
    _setting(group, "system_note", metavar="TEXT", help="a note for connecting agents")
    _add_place(parser)
    _add_embedding(parser)


def _add_binding(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("binding")
    _setting(group, "host", metavar="HOST", help="bind address")
    _setting(group, "port", metavar="PORT", help="port")
    _setting(
        group,
        "transport",
        choices=[transport.value for transport in Transport],
        help="how to speak MCP",
    )


def _add_preflight(parser: argparse.ArgumentParser) -> None:
    _add_binding(parser)
    _setting(
        parser.add_argument_group("settings"),
        "rag_dir",
        metavar="DIR",
        help="folder of the .env file",
    )


def _add_probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="such as http://127.0.0.1:8765/mcp")
    parser.add_argument(
        "--query", metavar="TEXT", help="what to ask (default: a document's title)"
    )
    parser.add_argument(
        "-k", type=int, default=1, help="at most this many passages (%(default)s)"
    )
    parser.add_argument(
        "--timeout-seconds",
        type=float,
        default=30.0,
        help="for all of it together (default: %(default)s)",
    )
    parser.add_argument(
        "--max-age-hours",
        type=float,
        metavar="N",
        help="fail where the last indexing run is longer ago (default: no limit)",
    )
    _add_json(parser)


def _add_clients(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="such as http://127.0.0.1:8765/mcp")
    parser.add_argument(
        "--name", default="docs-rag", help="name of the server (default: %(default)s)"
    )
    parser.add_argument(
        "--token", action="store_true", help="the server wants RAG_AUTH_TOKEN"
    )


def _add_check_config(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)
    _add_place(parser)
    _add_embedding(parser)


def _add_refresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ref",
        nargs="?",
        metavar="REF",
        help="branch, tag or commit (default: what HEAD of the origin says)",
    )
    parser.add_argument(
        "--allow-shrink",
        action="store_true",
        help="purge even if that is more than half of the indexed files",
    )
    _add_json(parser)
    _add_place(parser)
    _add_embedding(parser)


def _add_snapshot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", help="the file to write")
    parser.add_argument(
        "--replace", action="store_true", help="overwrite OUT if it exists"
    )
    _add_place(parser)


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `snapshot` wrote")
    _add_place(parser)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="build the index anew from the corpus where that mends it",
    )
    _add_json(parser)
    _add_place(parser)
    _add_embedding(parser)


def _add_eval(parser: argparse.ArgumentParser) -> None:
    add_options(parser, golden=None, compare=None)
    _add_place(parser)
    _add_embedding(parser)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--queries",
        type=Path,
        metavar="FILE",
        help="questions, one a line, or a golden file (default: the corpus' headings)",
    )
    parser.add_argument(
        "--count",
        type=int,
        default=DEFAULT_BENCH_QUESTIONS,
        metavar="N",
        help="at most this many questions (default: %(default)s)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        metavar="N",
        help="ask each so often; the median counts (default: %(default)s)",
    )
    _add_json(parser)
    _add_place(parser)
    _add_embedding(parser)


def _add_golden(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=["draft"],
        help="draft: propose questions out of headings, definitions and error messages",
    )
    parser.add_argument(
        "--count",
        type=int,
        default=DEFAULT_DRAFTS,
        metavar="N",
        help="at most this many from each source (default: %(default)s)",
    )
    parser.add_argument(
        "--misses",
        nargs="+",
        default=[],
        metavar="FILE",
        help="add the questions that these trace files, or folders, say were missed",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write there; FILE must not exist"
    )
    _add_place(parser)


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mirror",
        action="store_true",
        help="fail unless the corpus is one that a client may push",
    )
    _add_json(parser)
    _add_place(parser)
