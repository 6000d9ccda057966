"""Rules of the table of variables."""

import dataclasses
from pathlib import Path

import pytest

from docs_rag.config import load_settings
from docs_rag.variables import SETTING_VARIABLES, VARIABLES, Variable

SAMPLES = {
    "RAG_CORPUS": "demo",
    "RAG_PORT": "9",
    "RAG_MCP_TRANSPORT": "sse",
    "RAG_EMBED_BACKEND": "stub",
    "RAG_VECTOR_CACHE_MB": "64",
    "RAG_TRACE_CONTENT": "1",
    "LMSTUDIO_BASE_URL": "http://h/v1",
}


def test_the_table_lists_each_variable_once_with_a_meaning() -> None:
    """Name, default and meaning are there, in one line of plain text each."""
    names = [variable.name for variable in VARIABLES]

    assert len(names) == len(set(names))
    for name, default, meaning in VARIABLES:
        assert name == name.upper()
        assert meaning
        assert "\n" not in default + meaning
        assert "|" not in default + meaning


def test_every_setting_has_its_variable_in_the_table() -> None:
    """Only the variables that tracing reads by itself belong to no setting."""
    names = {variable.name for variable in VARIABLES}

    assert names - set(SETTING_VARIABLES.values()) == {
        "RAG_TRACE_KEEP_DAYS",
        "RAG_PRICE_INPUT_PER_MTOK",
        "RAG_PRICE_OUTPUT_PER_MTOK",
        "RAG_COST_ALERT_USD",
    }
    assert set(SETTING_VARIABLES.values()) <= names


@pytest.mark.parametrize("setting", [s for s in SETTING_VARIABLES if s != "rag_dir"])
def test_every_variable_is_read_from_environment_and_dotenv(
    setting: str, tmp_path: Path
) -> None:
    """No variable of the table is without effect, whichever source sets it."""
    (tmp_path / "corpora.json").write_text('{"demo": {"roots": ["docs"]}}')
    variable = SETTING_VARIABLES[setting]
    value = SAMPLES.get(variable, "value")
    base = {"RAG_DIR": str(tmp_path), "RAG_CORPUS": "demo"}
    from_environment = load_settings(base | {variable: value})
    (tmp_path / ".env").write_text(f"{variable}={value}\n")
    base.pop(variable, None)
    from_dotenv = load_settings(base)

    assert from_environment.origins[setting] == f"environment {variable}"
    assert from_dotenv.origins[setting] == ".env"


@pytest.mark.parametrize(
    "variable", [v for v in VARIABLES if v.default and "<" not in v.default]
)
def test_a_shown_default_is_the_value_in_force(variable: Variable) -> None:
    """Setting a variable to its documented default changes nothing but the origin."""
    plain = load_settings({"HOME": "/nowhere"})
    explicit = load_settings({"HOME": "/nowhere", variable.name: variable.default})

    assert dataclasses.replace(explicit, origins={}) == dataclasses.replace(
        plain, origins={}
    )
