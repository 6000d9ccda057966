"""Serve what the conformance suite asks for, behind the same guard and settings.

usage: serve_fixtures.py PORT

The tools, resources and prompts are the suite's; the application factory, the guard,
the sockets and uvicorn's options are the product's. So what passes here is about them.
"""

import base64
import sys
from pathlib import Path

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs_rag.admission import Policy
from docs_rag.config import Transport
from docs_rag.listener import listening, uvicorn_options
from docs_rag.netguard import decide_binding
from docs_rag.serve import guarded

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmM"
    "IQAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64encode(b"RIFF$\0\0\0WAVEfmt ").decode()

server = MCPServer("docs-rag-fixtures", version="1", subscriptions=False)


def text(content: str) -> TextContent:
    """Return ``content`` as the suite wants it."""
    return TextContent(type="text", text=content)


def embedded(uri: str, content: str, mime_type: str) -> EmbeddedResource:
    """Return a resource inside a result."""
    resource = TextResourceContents(uri=uri, mime_type=mime_type, text=content)
    return EmbeddedResource(type="resource", resource=resource)


Content = TextContent | ImageContent | EmbeddedResource
IMAGE = ImageContent(type="image", data=PIXEL, mime_type="image/png")


@server.tool()
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> list[ImageContent]:
    """Return an image."""
    return [IMAGE]


@server.tool(structured_output=False)
def test_audio_content() -> list[AudioContent]:
    """Return a sound."""
    return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]


@server.tool(structured_output=False)
def test_embedded_resource() -> list[EmbeddedResource]:
    """Return a resource."""
    content = "This is an embedded resource content."
    return [embedded("test://embedded-resource", content, "text/plain")]


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[
    TextContent | ImageContent | EmbeddedResource
]:
    """Return a text, an image and a resource."""
    data = '{"test":"data","value":123}'
    return [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", data, "application/json"),
    ]


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress thrice."""
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, 100)
    return "done"


@server.tool()
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Return a text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """Return a picture."""
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> str:
    """Return what the address says."""
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


@server.prompt()
def test_simple_prompt() -> str:
    """Return a prompt."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Return a prompt with what was given."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    """Return a prompt with a resource."""
    resource = embedded(resourceUri, "Embedded resource content.", "text/plain")
    return [
        UserMessage(resource),
        UserMessage(text("Please process the resource above.")),
    ]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """Return a prompt with an image."""
    return [
        UserMessage(IMAGE),
        UserMessage(text("Please analyze the image above.")),
    ]


if __name__ == "__main__":
    binding = decide_binding("127.0.0.1", None)
    with listening(binding, int(sys.argv[1])) as sockets:
        policy = Policy(binding, int(sys.argv[1]))
        inner = server._lowlevel_server
        app = guarded(inner, policy, Transport.STREAMABLE_HTTP, [])
        running = uvicorn.Server(uvicorn.Config(app, **uvicorn_options(policy)))
        sys.stderr.write("docs-rag: serving corpus of fixtures\n")
        running.run(sockets=sockets)
