"""Every test starts from an environment that says nothing of docs-rag."""

import os
import signal
import threading
from pathlib import Path

import pytest

OURS = ("RAG_", "EMBED_", "LMSTUDIO_")

# A shell's background jobs ignore an interrupt, and so would all that tests start.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Scrub the settings of the machine, and lead home to an empty folder."""
    for name in list(os.environ):
        if name.startswith(OURS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RAG_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
