"""
Report on, check, export and prune traces: the door to `docs_rag/tracecli.py`.

Usage: python tracing.py [--help]. The same as `docs-rag trace`.
"""

import os
import sys

from docs_rag.tracecli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, sys.stdout, sys.stderr))
