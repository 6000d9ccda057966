"""
What an index takes on disk, table by table, per byte of the markdown in it.
"""

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

from docs_rag.config import load_settings
from docs_rag.indexer import index_corpus
from docs_rag.store import Store
from eval.bench.figures import Bench, Figure, Section, Table
from eval.bench.filling import SyntheticEmbedder, filled
from eval.bench.memory import lay_out
from eval.bench.processes import answer, run_child
from eval.bench.synthetic import write_markdown

# What each table, with its indexes and shadow tables, is shown as.
_PARTS = {
    "vectors": ("vectors", "sqlite_autoindex_vectors"),
    "trigrams": ("trigrams_",),
    "words": ("words_",),
    "pages": ("pages_",),
    "chunks": ("chunks",),
    "windows": ("windows",),
    "sections": ("sections",),
}
_REST = "rest"
_TREE, _BARE_TREE = "indexed tree", "the same without trigrams"
_WITH = "with"


def measure(bench: Bench) -> Section:
    """Measure generated indexes and a tree that is really indexed, in two ways."""
    files = max(1, bench.sizes[0] // 10) if bench.given_sizes else 200
    columns = {}
    for chunks in bench.sizes:
        bench.say(f"size: {chunks:,} chunks")
        path = filled(bench.work, chunks, bench.say).index_path
        columns[f"{chunks:,} chunks"] = by_table(path)
    for name, kind in ((_TREE, _WITH), (_BARE_TREE, "without")):
        bench.say(f"size: {name}")
        columns[name] = run_child(__name__, files, kind)
    return section(columns, files)


def section(columns: dict[str, dict[str, Any]], files: int) -> Section:
    """Return the sizes in columns as figures and a table."""
    shares = {
        name: {part: size / one["markdown"] for part, size in one["parts"].items()}
        for name, one in columns.items()
    }
    totals = {name: sum(parts.values()) for name, parts in shares.items()}
    whole, without = totals[_TREE], totals[_BARE_TREE]
    figures = [
        Figure(f"index of {name}", total, "bytes per byte of markdown")
        for name, total in totals.items()
    ]
    figures.append(
        Figure("index without trigrams", without, "bytes", whole, "with trigrams")
    )
    rows = [
        (part, *(round(one[part], 3) for one in shares.values()))
        for part in (*_PARTS, _REST)
    ]
    rows.append(("all", *(round(total, 3) for total in totals.values())))
    return Section(
        title="Index size",
        figures=tuple(figures),
        tables=(
            Table(
                "Bytes per byte of markdown, by table", ("table", *shares), tuple(rows)
            ),
        ),
        notes=(
            f"From SQLite's dbstat. The indexed tree is {files:,} generated files that "
            'went through the indexer; without trigrams: `"trigram": false` in '
            "corpora.json. Vectors are 2 KiB each, whatever the text.",
        ),
    )


def by_table(path: Path) -> dict[str, Any]:
    """Return the bytes of each part of an index, and of the markdown in it."""
    with Store(path) as store, store.snapshot():
        rows = store.rows("SELECT name, sum(pgsize) FROM dbstat GROUP BY name")
        markdown = store.value("SELECT sum(size_bytes) FROM files")
    parts = dict.fromkeys((*_PARTS, _REST), 0)
    for table, size in rows:
        parts[_part_of(table)] += size
    return {"parts": parts, "markdown": markdown}


def _part_of(table: str) -> str:
    for part, prefixes in _PARTS.items():
        if table.startswith(prefixes):
            return part
    return _REST


# -- in the child -----------------------------------------------------------------


def _index_tree(files: int, *, trigram: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_markdown(Path(folder) / "corpus", files)
        corpus = load_settings(lay_out(Path(folder))).chosen()
        corpus = dataclasses.replace(corpus, trigram=trigram)
        index_corpus(corpus, SyntheticEmbedder())
        return by_table(corpus.index_path)


if __name__ == "__main__":
    answer(_index_tree(int(sys.argv[1]), trigram=sys.argv[2] == _WITH))
