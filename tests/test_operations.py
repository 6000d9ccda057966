"""What an operator runs, seen by its exit code."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from fake_endpoint import Answer, Call, fake_endpoint, healthy
from layouts import make_corpus

from docs_rag.cli import main

PAGES = {
    "docs/good.md": "# Good\n\nThe lock keeper opens at six.\n",
    "docs/odd.md": "# Odd\n\nThe zigzag gate sticks.\n",
}


def refuse_zigzag(call: Call) -> Answer:
    """Refuse any request that holds one word, as a server does with a bad text."""
    if any("zigzag" in text for text in call.texts):
        return Answer({"error": "cannot tokenize"}, status=400)
    return healthy(call)


@pytest.fixture
def endpoint_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    make_corpus(tmp_path, PAGES)
    settings = {
        "RAG_DIR": str(tmp_path),
        "RAG_CORPUS": "demo",
        "RAG_EMBED_BACKEND": "openai",
        "EMBED_MODEL": "some-model",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.mark.parametrize("verb", ["index", "refresh"])
def test_a_page_without_vectors_fails_the_run_that_names_it(
    verb: str,
    endpoint_settings: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run that could not embed a page exits 1 and names it, until it can."""
    command = [verb]
    with fake_endpoint() as endpoint:
        monkeypatch.setenv("LMSTUDIO_BASE_URL", endpoint.base_url)
        endpoint.rule = refuse_zigzag
        failed = main(command)
        text = capsys.readouterr().out
        failed_json = main([*command, "--json"])
        report = json.loads(capsys.readouterr().out)
        endpoint.rule = healthy
        healed = main(command)

    assert (failed, failed_json, healed) == (1, 1, 0)
    assert "failed: docs/odd.md" in text
    assert [row["path"] for row in report["failed"]] == ["docs/odd.md"]
