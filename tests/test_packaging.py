"""The wheel: what is in it, and that it works with nothing of the checkout near."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from docs_rag import __version__

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from this checkout without a network."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    """A folder with the contents of the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(unpacked, cwd, *words):
    """Run the unpacked package in ``cwd``, with its settings there."""
    done = subprocess.run(
        [sys.executable, "-m", "docs_rag", *words],
        cwd=cwd,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cwd),
            "PYTHONPATH": str(unpacked),
            "PYTHONSAFEPATH": "1",
            "RAG_DIR": str(cwd / "rag"),
            "RAG_CORPUS": "small",
            "RAG_EMBED_BACKEND": "stub",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_holds_the_package_and_nothing_else(wheel):
    """Loose modules, tests or data at the top would overwrite other people's files."""
    with zipfile.ZipFile(wheel) as archive:
        names = [Path(name) for name in archive.namelist()]
    modules = {path.name for path in (ROOT / "docs_rag").glob("*.py")}
    packed = {str(name.relative_to("docs_rag")) for name in names if in_package(name)}

    assert {name.parts[0] for name in names} == {
        "docs_rag",
        f"docs_rag-{__version__}.dist-info",
    }
    assert {name for name in packed if name.endswith(".py")} == modules
    assert "py.typed" in packed


def in_package(name: Path) -> bool:
    return name.parts[0] == "docs_rag"


def test_wheel_installs_the_command_and_the_licence(unpacked):
    """The wheel declares the command, the version, the readme and the licence."""
    info = unpacked / f"docs_rag-{__version__}.dist-info"
    metadata = (info / "METADATA").read_text(encoding="utf-8")

    assert "docs-rag = docs_rag.cli:main" in (info / "entry_points.txt").read_text()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\n# docs-rag\n" in metadata
    assert (info / "licenses" / "LICENSE").is_file()


def test_wheel_works_alone(unpacked, tmp_path):
    """Unpacked in an empty folder it indexes and answers: no import reaches outside."""
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "README.md").write_text("# Kiln\n\nThe kiln is fired to 1200 degrees.\n")

    assert "usage: docs-rag" in run(unpacked, tmp_path, "--help")
    run(unpacked, tmp_path, "init", "pages", "--name", "small")
    report = json.loads(run(unpacked, tmp_path, "index", "--json"))
    answer = json.loads(run(unpacked, tmp_path, "query", "kiln fired", "--json"))

    assert report["added"] == ["README.md"]
    assert answer["hits"][0]["path"] == "README.md"


def test_every_module_is_importable_alone(unpacked, tmp_path):
    """Each module of the wheel can be imported, and comes from the wheel."""
    code = (
        "import importlib, pathlib, sys\n"
        f"folder = pathlib.Path({str(unpacked / 'docs_rag')!r})\n"
        "for path in sorted(folder.glob('*.py')):\n"
        "    if not path.stem.startswith('__'):\n"
        "        module = importlib.import_module('docs_rag.' + path.stem)\n"
        "        assert pathlib.Path(module.__file__) == path, module.__file__\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
