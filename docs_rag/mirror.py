"""
What a mirror of a corpus holds, and whether a corpus may be one.

A client that pushes a mirror reads this from the service each time, so the scope is
declared in one place. A push deletes what is not in scope, so it must not hit a folder
that holds anything else.
"""

import json
from typing import TextIO

from docs_rag.config import Settings
from docs_rag.corpora import Corpus
from docs_rag.errors import ConfigError

# The first line of the output; a client refuses what it does not know.
FORMAT = "docs-rag-scope\t1"


def show_scope(settings: Settings, mirror: bool, as_json: bool, out: TextIO) -> None:
    """Write the scope of the chosen corpus; first, if asked, require a mirror."""
    corpus = settings.chosen()
    if mirror:
        require_mirror(settings)
    if as_json:
        out.write(json.dumps(scope_as_json(corpus), ensure_ascii=False, indent=2))
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in scope_lines(corpus))


def scope_lines(corpus: Corpus) -> tuple[str, ...]:
    """
    Return the scope as lines of key, tab, value: paths relative to the corpus.

    Entries hold no control characters, so a line needs no quoting.
    """
    files = [*corpus.top_files, *(f"docs/{name}" for name in corpus.doc_root_files)]
    rows = [
        ("corpus", corpus.name),
        ("directory", str(corpus.directory)),
        *(("extension", extension) for extension in corpus.extensions),
        *(("file", name) for name in dict.fromkeys(files)),
        *(("root", name) for name in corpus.roots),
        *(("exclude_dir", name) for name in corpus.exclude_dirs),
    ]
    return (FORMAT, *(f"{key}\t{value}" for key, value in rows))


def scope_as_json(corpus: Corpus) -> dict[str, object]:
    """Return the same as JSON."""
    return {
        "corpus": corpus.name,
        "directory": str(corpus.directory),
        "extensions": list(corpus.extensions),
        "top_files": list(corpus.top_files),
        "doc_root_files": list(corpus.doc_root_files),
        "roots": list(corpus.roots),
        "exclude_dirs": list(corpus.exclude_dirs),
    }


def require_mirror(settings: Settings) -> None:
    """Raise ``ConfigError`` where the corpus is no folder to push a mirror into."""
    corpus = settings.chosen()
    place = settings.rag_dir / "corpus" / corpus.name
    if corpus.directory != place.resolve():
        raise ConfigError(
            f"corpus {corpus.name!r} is indexed from {corpus.directory}, but a mirror "
            f"is pushed to {place}: remove corpus_dir from its entry in corpora.json"
        )
    if corpus.git_origin_repo is not None:
        raise ConfigError(
            f"corpus {corpus.name!r} is fetched from a repository (git_origin_repo): "
            "refresh it on the host with refresh.sh, or remove that key"
        )
    if corpus.directory in corpus.data_dir.parents:
        raise ConfigError(
            f"corpus {corpus.name!r} has its data_dir inside its corpus_dir, where a "
            f"push would delete the index: move {corpus.data_dir} elsewhere"
        )
    if (corpus.directory / ".git").exists():
        raise ConfigError(
            f"{corpus.directory} is a checkout, and a push would delete what is not in "
            "scope: move it away, or index it in place with `docs-rag index`"
        )
