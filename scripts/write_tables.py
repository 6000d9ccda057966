"""Write into README.md what the code declares: the settings and the client snippets.

Run it after a change to docs_rag/variables.py or docs_rag/clients.py:
python scripts/write_tables.py
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs_rag.clients import snippets  # noqa: E402 - the path must be set first
from docs_rag.variables import VARIABLES  # noqa: E402

URL = "http://127.0.0.1:8765/mcp"


def variables_table() -> str:
    """Return the table of settings, a variable a row."""
    rows = ["| Variable | Default | Meaning |", "|---|---|---|"]
    for variable in VARIABLES:
        default = f"`{variable.default}`" if variable.default else "–"
        rows.append(f"| `{variable.name}` | {default} | {variable.meaning} |")
    return "\n".join(rows)


def client_blocks() -> str:
    """Return the configuration of each client as a fenced block."""
    blocks = []
    for snippet in snippets(URL):
        place = "in a shell" if snippet.place == "shell" else f"`{snippet.place}`"
        title = f"{snippet.client}, {place}:"
        blocks.append(f"{title}\n\n```{snippet.syntax}\n{snippet.text}\n```")
    return "\n\n".join(blocks)


def filled(text: str) -> str:
    """Return ``text`` with what stands between the marks made anew."""
    for name, content in (
        ("variables", variables_table()),
        ("clients", client_blocks()),
    ):
        pattern = rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)"
        text = re.sub(
            pattern,
            lambda match, new=content: f"{match[1]}{new}\n{match[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")
