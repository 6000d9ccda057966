"""
A real HTTP server on loopback that answers ``/v1/embeddings`` as a test tells it to.

Vectors are made of the hashed words of a text, so that like texts have like vectors
and every word counts.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server sends: a JSON value, or bytes as they are."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Call:
    """One request as the server saw it."""

    path: str
    headers: dict[str, str]
    model: str
    texts: list[str]


def word_vector(text: str, width: int = 64, seed: int = 0) -> list[float]:
    """Return a vector to which every word of ``text`` adds something."""
    vector = [0.01] * width
    for word in text.split():
        digest = hashlib.blake2b(f"{seed} {word}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest)
        vector[number % width] += 1.0 + number % 97 / 97
    return vector


def embeddings(vectors: list[Any], **extra: Any) -> Answer:
    """Return a well-formed answer with ``vectors`` in order."""
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    return Answer({"object": "list", "data": data, **extra})


def healthy(call: Call) -> Answer:
    """Answer as a server does that is in order."""
    tokens = sum(len(text.split()) for text in call.texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return embeddings([word_vector(text) for text in call.texts], usage=usage)


Rule = Callable[[Call], Answer]


class FakeEndpoint:
    """The server: set ``rule``, read ``calls``."""

    def __init__(self) -> None:
        self.rule: Rule = healthy
        self.calls: list[Call] = []
        self.stopping = threading.Event()
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.server_address[1]

    @property
    def base_url(self) -> str:
        """What to set as LMSTUDIO_BASE_URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def batch_sizes(self) -> list[int]:
        """How many texts each call held."""
        return [len(call.texts) for call in self.calls]

    def answer_in_turn(self, *answers: Answer | Rule) -> None:
        """Give each answer once, then be healthy."""
        rest = list(answers)

        def rule(call: Call) -> Answer:
            if not rest:
                return healthy(call)
            answer = rest.pop(0)
            return answer if isinstance(answer, Answer) else answer(call)

        self.rule = rule

    def close(self) -> None:
        """Stop serving and let hanging requests go."""
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    endpoint: FakeEndpoint
    protocol_version = "HTTP/1.1"
    # One segment an answer: a second would wait 40 ms for the first one's receipt.
    wbufsize = -1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        call = Call(self.path, dict(self.headers), body["model"], body["input"])
        self.endpoint.calls.append(call)
        answer = self.endpoint.rule(call)
        payload = answer.body
        if not isinstance(payload, bytes):
            payload = json.dumps(payload).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
        # Nobody listens any more where a client gave up on a hanging server.
        with suppress(ConnectionError):
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def fake_endpoint() -> Iterator[FakeEndpoint]:
    """Run a ``FakeEndpoint`` for the length of a ``with`` block."""
    endpoint = FakeEndpoint()
    try:
        yield endpoint
    finally:
        endpoint.close()
