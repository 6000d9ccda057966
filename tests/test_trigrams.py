"""The trigram index of a corpus: left out, brought back, and of an older docs-rag."""

from pathlib import Path

import pytest
from layouts import configure, make_corpus

from docs_rag.config import Corpus, load_settings
from docs_rag.corpora import parse_corpora
from docs_rag.doctor import examine
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import ConfigError
from docs_rag.indexer import index_corpus
from docs_rag.records import CorpusStatus
from docs_rag.retrieval import Retriever, ask
from docs_rag.schema import MIGRATIONS
from docs_rag.store import Store
from docs_rag.vectors import DiskVectors

PAGES = {
    "docs/anchor.md": "# Anchor\n\nSet anchor_chain_metres before you let it go.\n",
    "docs/bilge.md": "# Bilge\n\nPump the bilge at noon.\n",
}
OFF = "Substring search is off"


def switched(tmp_path: Path, trigram: bool) -> Corpus:
    """Return the corpus "demo" with the key set otherwise."""
    configure(tmp_path, {"demo": {"roots": ["docs"], "trigram": trigram}})
    return load_settings({"RAG_DIR": str(tmp_path), "RAG_CORPUS": "demo"}).chosen()


def asked(corpus: Corpus, query: str) -> tuple[list[str], CorpusStatus]:
    """Return the paths that only the trigrams name, and the status."""
    retriever = Retriever(
        *(corpus.name, corpus.directory, corpus.index_path),
        *(StubEmbedder(), DiskVectors()),
    )
    try:
        answer = retriever.retrieve(ask(query), even_if_none=True)
        paths = [hit.path for hit in answer.hits if hit.ranks.trigrams]
        return paths, retriever.status()
    finally:
        retriever.close()


def rows(corpus: Corpus) -> int:
    with Store(corpus.index_path) as store:
        return int(store.value("SELECT count(*) FROM trigrams_docsize"))


def test_a_corpus_may_do_without(tmp_path: Path) -> None:
    """No row is written, nothing is found by substrings, and the status says so."""
    corpus = make_corpus(tmp_path, PAGES, trigram=False)
    index_corpus(corpus, StubEmbedder())
    found, status = asked(corpus, "chor_chain_met")

    assert (rows(corpus), found) == (0, [])
    assert any(OFF in notice for notice in status.notices)
    assert examine(corpus) == ()


@pytest.mark.parametrize("first", [True, False])
def test_the_key_may_change(tmp_path: Path, first: bool) -> None:
    """Files are cut anew without embedding a text; the index is as if made so."""
    make_corpus(tmp_path, PAGES)
    index_corpus(switched(tmp_path, first), StubEmbedder())
    corpus = switched(tmp_path, not first)
    report = index_corpus(corpus, StubEmbedder())
    found, status = asked(corpus, "chor_chain_met")

    assert (report.rebuilt, report.embedded) == (2, 0)
    assert rows(corpus) == (0 if first else report.chunks)
    assert found == ([] if first else ["docs/anchor.md"])
    assert any(OFF in notice for notice in status.notices) is first
    assert examine(corpus) == ()


@pytest.mark.parametrize("value", ['"false"', "0", "null", "[]", '"yes"'])
def test_the_key_is_true_or_false(tmp_path: Path, value: str) -> None:
    """What only looks like it is refused with the file, the corpus and the key."""
    text = '{"demo": {"roots": ["docs"], "trigram": ' + value + "}}"
    with pytest.raises(ConfigError, match=r'"demo", key "trigram": is .* not true or'):
        parse_corpora(text, tmp_path / "corpora.json")


def rewind(corpus: Corpus) -> None:
    """Make the index one of the first schema, cut by another recipe."""
    old = MIGRATIONS[0].partition("CREATE VIRTUAL TABLE trigrams")
    with Store(corpus.index_path, writable=True) as store:
        store.rows(
            "DROP TABLE trigrams_vocabulary; DROP TABLE trigrams;"
            f"DROP TABLE frequencies; {old[1]}{old[2]};"
            "INSERT INTO trigrams(rowid, body) SELECT id, body FROM chunks;"
            "UPDATE files SET recipe = 'old'; PRAGMA user_version = 1"
        )


def test_an_index_of_the_first_schema_is_read_and_brought_up_to_date(
    tmp_path: Path,
) -> None:
    """Readers get on with it as it is; the next run makes it anew, without a model."""
    corpus = make_corpus(tmp_path, PAGES)
    index_corpus(corpus, StubEmbedder())
    rewind(corpus)

    assert asked(corpus, "chor_chain_met")[0] == ["docs/anchor.md"]

    report = index_corpus(corpus, StubEmbedder())
    assert (report.rebuilt, report.embedded) == (2, 0)
    assert asked(corpus, "chor_chain_met")[0] == ["docs/anchor.md"]
    assert examine(corpus) == ()
