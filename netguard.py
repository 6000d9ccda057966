"""May a server start with this environment? See ``python netguard.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from docs_rag.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["preflight", *sys.argv[1:]]))
