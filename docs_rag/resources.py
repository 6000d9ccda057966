"""
Documents as MCP resources: listed, addressed by one template, read page by page.

What is read is framed and neutralised like a passage of an answer: a quotation with
its place, never instructions.
"""

import hashlib
from typing import Any

from mcp.types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from docs_rag.assembly import document_id
from docs_rag.reading import DOCUMENTS_PER_LISTING, Page
from docs_rag.rendering import neutralise, one_line, plain_path
from docs_rag.retrieval import NOTICE
from docs_rag.schema import StoredFile

_MIME_TYPE = "text/markdown"
_MAX_TITLE_CHARS = 200


def template_of(corpus: str) -> ListResourceTemplatesResult:
    """Return the one template: a document, some lines of it, or a section."""
    uri_template = document_id(corpus, "") + "{+path}{?lines}{#section}"
    return ListResourceTemplatesResult(
        resource_templates=[
            ResourceTemplate(
                name="document",
                title="A document or a section",
                uri_template=uri_template,
                description=(
                    "Read what the id of a hit names: a document by its path, one of "
                    "its sections, or some lines (lines=first-last). Long ones come "
                    "in pages; each names the address of the next."
                ),
                mime_type=_MIME_TYPE,
            )
        ]
    )


def listing_of(corpus: str, files: list[StoredFile]) -> ListResourcesResult:
    """Return one page of the list of documents; the cursor is its last path."""
    is_full = len(files) == DOCUMENTS_PER_LISTING
    return ListResourcesResult(
        resources=[
            Resource(
                name=plain_path(file.path),
                title=one_line(file.title)[:_MAX_TITLE_CHARS] or None,
                uri=document_id(corpus, file.path),
                mime_type=_MIME_TYPE,
                size=file.size_bytes,
            )
            for file in files
        ],
        next_cursor=files[-1].path if is_full else None,
    )


def contents_of(page: Page) -> ReadResourceResult:
    """Return a page as text, framed like a passage, and its facts as metadata."""
    facts: dict[str, Any] = {
        "path": plain_path(page.path),
        "lines": [page.first_line, page.last_line],
        "line_count": page.line_count,
        "generation": page.generation,
        "stale": page.is_stale,
        "next": page.following,
        "notice": NOTICE,
    }
    return ReadResourceResult(
        contents=[
            TextResourceContents(
                uri=page.address,
                mime_type=_MIME_TYPE,
                text=_framed(page),
                _meta={f"docs-rag/{name}": value for name, value in facts.items()},
            )
        ]
    )


def _framed(page: Page) -> str:
    text = neutralise(page.text)
    heading = one_line(page.heading)[:_MAX_TITLE_CHARS]
    head = [
        f"{plain_path(page.path)}:{page.first_line}-{page.last_line} "
        f"of {page.line_count} lines{f' | {heading}' if heading else ''}",
        NOTICE,
    ]
    if page.is_stale:
        head.append("STALE: the file changed since it was indexed")
    if page.following:
        head.append(f"goes on at: {page.following}")
    # A digest of all that is framed, so nothing that is framed can contain it.
    mark = hashlib.sha256("\n".join([*head, text]).encode()).hexdigest()[:16]
    return "\n".join([*head, f"<<<passage {mark}", text, f"{mark} passage>>>"])
