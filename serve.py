"""
Serve a corpus to coding agents over MCP: the door to `docs_rag/serve.py`.

Usage: python serve.py [--help]. The same as `docs-rag serve`.
"""

import sys

from docs_rag.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "serve")
    sys.exit(main())
