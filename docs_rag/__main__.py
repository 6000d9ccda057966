"""
``python -m docs_rag`` is ``docs-rag``.
"""

import sys

from docs_rag.cli import main

sys.exit(main())
