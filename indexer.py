"""
Build or refresh the index of a corpus: the door to `docs_rag/indexer.py`.

Usage: python indexer.py [--help]. The same as `docs-rag index`.
"""

import sys

from docs_rag.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "index")
    sys.exit(main())
