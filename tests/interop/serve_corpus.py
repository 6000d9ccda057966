"""Index a small corpus and serve it: for the suites and clients that come from outside.

usage: serve_corpus.py FOLDER PORT [stdio]
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs_rag.cli import main

PAGES = {
    "README.md": "# Harbour\n\nHow the harbour is run.\n\n## Lamps\n\nLit at dusk.\n",
    "docs/lamps.md": "# Lamps\n\nError `LAMP-0502`: the fuse of the lamp is blown.\n",
}


def lay_out(folder: Path) -> None:
    """Write the corpus and its configuration below ``folder``."""
    for name, text in PAGES.items():
        path = folder / "corpus" / "harbour" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    entry = {"harbour": {"top_files": ["README.md"], "roots": ["docs"]}}
    (folder / "corpora.json").write_text(json.dumps(entry), encoding="utf-8")


if __name__ == "__main__":
    place, port, *rest = sys.argv[1:]
    os.environ.update(RAG_DIR=place, RAG_CORPUS="harbour", RAG_EMBED_BACKEND="stub")
    transport = rest or ["streamable-http"]
    if not (Path(place) / "corpora.json").exists():
        lay_out(Path(place))
        sys.stdout = sys.stderr
        if code := main(["index"]):
            sys.exit(code)
        sys.stdout = sys.__stdout__
    sys.exit(main(["serve", "--port", port, "--transport", *transport]))
