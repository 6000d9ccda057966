"""
docs-rag: retrieval over the current documentation of a repository, for coding agents.

CONTRIBUTING.md maps the modules, lowest first; each imports only from those above it.
"""

import sys

# Said here, because what follows would fail with a traceback on an older one.
if sys.version_info < (3, 11):  # noqa: UP036 - this is who has to be told
    sys.exit(
        "docs-rag: Python 3.11 or newer is needed, this is "
        f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    )

__version__ = "0.1.0"
