"""What the documentation says is what the code does."""

import itertools
import json
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs_rag import __version__
from docs_rag.arguments import build_parser
from docs_rag.clients import snippets
from docs_rag.config import load_settings
from docs_rag.traceoptions import parse as parse_trace
from docs_rag.variables import VARIABLES

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TABLES = runpy.run_path(str(ROOT / "scripts" / "write_tables.py"))

VERBS = next(a.choices for a in build_parser()._actions if a.dest == "verb")

# Folders that are made by tools, and no part of the project.
MADE = {"node_modules", "__pycache__", "build", "dist"}
# In pieces, or this file would name them.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "registry.npm" + "js.org",
    "npm" + "mirror.com",
    "proxy.go" + "lang.org",
]


def between(name: str) -> str:
    text = README.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    return text.split(begin)[1].split(end)[0].strip()


def code_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line of a code block and each code span, with its line number."""
    is_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif is_code:
            yield number, line.removeprefix("$ ")
        else:
            yield from ((number, code) for code in re.findall(r"`([^`]+)`", line))


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield where a ``docs-rag`` command is shown, and its words."""
    for path in DOCUMENTS:
        for number, line in code_lines(path):
            if not re.search(r"(^|[\s/])docs-rag\s", line) or re.search(
                r"…|\.\.\.", line
            ):
                continue
            try:
                words = shlex.split(line, comments=True)
            except ValueError:  # a line of prose in a console transcript
                continue
            if words[:1] in (["claude"], ["pip"], ["docs-rag:"]):
                continue
            starts = [i for i, w in enumerate(words) if w.split("/")[-1] == "docs-rag"]
            for start in starts[:1]:
                command = itertools.takewhile(
                    lambda word: word not in {"|", ">", ">>", "&&", "||", ";", "&"},
                    words[start + 1 :],
                )
                yield f"{path.name}:{number}", list(command)


def text_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") for part in parts[:-1])
        if hidden and parts[0] not in {".ci", ".github"}:
            continue
        if path.is_file() and not MADE & set(parts):
            yield path


def test_settings_table_is_the_declared_variables():
    """README's table of settings is what the code declares, row by row."""
    assert between("variables") == TABLES["variables_table"]()
    assert len(VARIABLES) == between("variables").count("\n| `")


def test_client_blocks_are_the_printed_snippets():
    """README's client configuration is what ``docs-rag clients`` prints."""
    shown = between("clients")

    assert shown == TABLES["client_blocks"]()
    for snippet in snippets("http://127.0.0.1:8765/mcp"):
        assert snippet.text in shown


@pytest.mark.parametrize("where_and_words", list(commands()), ids=lambda pair: pair[0])
def test_shown_commands_parse(where_and_words):
    """Every ``docs-rag`` command in the documentation is accepted by the parser."""
    _, words = where_and_words

    if words[:1] == ["trace"]:
        if words[1:]:
            parse_trace(words[1:], "docs-rag trace")
        return
    if len(words) == 1:  # a verb that is spoken of
        assert words[0] in VERBS or words[0].startswith("--")
    elif "--help" not in words:
        build_parser().parse_args(words or ["status"])


def test_commands_were_found():
    """The search for commands finds them, so that the rule above can fail."""
    words = [words[0] for _, words in commands() if words]

    assert {"init", "index", "query", "serve", "clients", "trace"} <= set(words)


def test_every_verb_is_in_the_table():
    """README's table of commands has each verb, and no other."""
    rows = re.findall(r"^\| `docs-rag (\S+?)[ `]", README.read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(VERBS)


def test_example_configuration_loads(tmp_path):
    """corpora.example.json is a corpora.json, and shows every key."""
    example = (ROOT / "corpora.example.json").read_text(encoding="utf-8")
    (tmp_path / "corpora.json").write_text(example, encoding="utf-8")
    environment = {"RAG_DIR": str(tmp_path), "HOME": str(tmp_path)}
    settings = load_settings(environment)

    assert set(settings.corpora) == {"example", "everything"}
    shown = {
        key
        for name, entry in json.loads(example).items()
        if not name.startswith("_")
        for key in entry
    }
    documented = set(
        re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", README.read_text(), re.M)
    )
    keys = {key.strip("`") for cell in documented for key in cell.split(", ")}
    assert shown <= keys


def test_changelog_begins_with_this_version():
    """The newest entry of the changelog is the version of the package."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+\S*)", changelog, re.MULTILINE)

    assert versions[0] == __version__


def test_constraints_pin_every_dependency():
    """Each dependency is pinned to one version, which its range allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    declared = [
        *project["project"]["dependencies"],
        *itertools.chain(*extras),
        *project["build-system"]["requires"],
    ]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line.strip() and not line.startswith("#")]
    pinned = {}
    for pin in pins:
        name, _, version = pin.partition("==")
        assert re.fullmatch(r"[\w.+!-]+", version), pin
        pinned[canonicalize_name(name)] = version

    for text in declared:
        requirement = Requirement(text)
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), text


def test_no_file_names_a_registry_or_a_place_of_this_machine():
    """The project works anywhere: no registry's address, no path of one machine."""
    places = [str(ROOT), *([sys.prefix] if sys.prefix != sys.base_prefix else [])]
    found = []
    for path in text_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        for place in [*REGISTRIES, *places]:
            if place.encode() in content:
                found.append(f"{path.relative_to(ROOT)}: {place}")

    assert found == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path):
    """A link to a file of the project leads to one, and its anchor to a heading."""
    text = path.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)\s#:]*)(#[^)\s]+)?\)", text):
        there = (path.parent / target) if target else path
        assert there.exists(), f"{target} is linked and does not exist"
        if anchor and there.suffix == ".md":
            assert anchor.removeprefix("#") in anchors(there), f"{target}{anchor}"


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_named_tests_exist():
    """A test that the documentation names is there."""
    text = (ROOT / "docs" / "mcp-checklist.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)::(test_\w+)`", text)
    missing = [
        f"{module}::{name}"
        for module, name in named
        if f"def {name}(" not in read_test(module)
    ]

    assert len(named) > 60
    assert missing == []


def read_test(module: str) -> str:
    path = ROOT / "tests" / f"{module}.py"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_foreign_clients_are_pinned_without_a_lock_file():
    """Foreign clients have exact versions, and no file names where they come from."""
    folder = ROOT / "tests" / "interop"
    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))

    for name, version in package["dependencies"].items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
    assert not (folder / "package-lock.json").exists()
    assert not (folder / "npm-shrinkwrap.json").exists()
