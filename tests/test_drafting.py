"""``golden draft``: questions out of an index and traces; nothing is overwritten."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from layouts import make_corpus
from trace_samples import make_line, write_lines

from docs_rag.arguments import build_parser
from docs_rag.config import Corpus, load_settings
from docs_rag.drafting import draft_golden
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import ConfigError, IndexMissingError, StorageError
from docs_rag.indexer import index_corpus

PAGES = {
    "docs/sluice.md": (
        "# Manual\n\n## Open the sluice\n\nTurn the wheel until it stops moving.\n\n"
        "A *sluice* is a gate that lets water through a dam.\n\n"
        "    GateError: the sluice is open already\n"
    ),
    "docs/weir.md": "# Weirs\n\n## Clean the weir\n\nRake the weed off each morning.\n",
}


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = make_corpus(tmp_path_factory.mktemp("manual"), PAGES)
    index_corpus(corpus, StubEmbedder())
    return corpus


@pytest.fixture
def drafted(manual: Corpus, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Run the verb over the manual; return exit code, output and messages."""

    def run(*words: str, corpus: Corpus = manual) -> tuple[int, str, str]:
        entry = {
            "corpus_dir": str(corpus.directory),
            "data_dir": str(corpus.data_dir),
            "roots": ["docs"],
        }
        config = json.dumps({corpus.name: entry})
        (tmp_path / "corpora.json").write_text(config, encoding="utf-8")
        settings = load_settings(
            {"RAG_DIR": str(tmp_path), "RAG_CORPUS": corpus.name, "HOME": str(tmp_path)}
        )
        arguments = build_parser().parse_args(["golden", "draft", *words])
        out, err = io.StringIO(), io.StringIO()
        return (
            draft_golden(arguments, settings, out, err),
            out.getvalue(),
            err.getvalue(),
        )

    return run


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_corpus_proposes_its_own_questions(
    drafted: Callable[..., tuple[int, str, str]],
) -> None:
    """Headings, definitions and error messages become lines, with their evidence."""
    code, out, err = drafted()
    rows = rows_of(out)

    assert (code, err) == (0, "")
    assert {row["family"] for row in rows} == {"heading", "definition", "error"}
    for row in rows:
        assert row["evidence"] in PAGES[row["expected"][0]], row
    assert "Clean the weir" in [row["query"] for row in rows]


def test_count_bounds_the_drafts(drafted: Callable[..., tuple[int, str, str]]) -> None:
    """No more questions than asked for; less than none is an error."""
    assert len(rows_of(drafted("--count", "2")[1])) == 2
    assert drafted("--count", "0")[1] == ""
    with pytest.raises(ConfigError, match="--count"):
        drafted("--count=-1")


def missed(query: str | None, corpus: str, digest: str) -> str:
    content = {} if query is None else {"gen_ai.retrieval.query.text": query}
    line = make_line(match="none", corpus=corpus, **{"query.sha256": digest})
    record = json.loads(line)
    record["attributes"].update(content)
    return json.dumps(record) + "\n"


def test_traces_add_what_was_missed(
    drafted: Callable[..., tuple[int, str, str]], manual: Corpus, tmp_path: Path
) -> None:
    """Questions of this corpus are mined from files and folders; digests are told."""
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = [
        missed("who owns the eel trap?", manual.name, "a"),
        missed("a question to another corpus", "other", "b"),
        missed(None, manual.name, "c"),
    ]
    path = write_lines(logs / "traces-a.jsonl", lines)

    for place in (logs, path):
        code, out, err = drafted("--count", "9", "--misses", str(place))
        rows = [row for row in rows_of(out) if row["family"] == "missed"]
        assert code == 0
        assert [row["query"] for row in rows] == ["who owns the eel trap?"]
        assert rows[0]["expected"] == []
        assert "1 missed questions are in the traces as digests only" in err


def test_a_trace_file_that_is_not_there_is_named(
    drafted: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """The drafts are given all the same; the exit code says that something lacks."""
    code, out, err = drafted("--misses", str(tmp_path / "gone.jsonl"))

    assert code == 1
    assert "gone.jsonl: " in err
    assert rows_of(out)


def test_out_overwrites_nothing(
    drafted: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """The file is written once; after that it may have been edited."""
    target = tmp_path / "golden.jsonl"
    code, out, err = drafted("--out", str(target))
    written = target.read_text(encoding="utf-8")

    assert (code, out) == (0, "")
    assert f"{len(rows_of(written))} questions to edit in {target}" in err
    with pytest.raises(StorageError, match="may have been edited"):
        drafted("--out", str(target))
    assert target.read_text(encoding="utf-8") == written
    with pytest.raises(StorageError, match="cannot write"):
        drafted("--out", str(tmp_path / "nowhere" / "golden.jsonl"))


def test_without_an_index_there_is_nothing_to_draft_from(
    drafted: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """The error says to build the index first."""
    corpus = make_corpus(tmp_path / "bare", PAGES)

    with pytest.raises(IndexMissingError, match="docs-rag index"):
        drafted(corpus=corpus)
