"""
One request to an OpenAI-compatible ``/embeddings`` endpoint, with bounded patience.

The API key leaves this module only in the Authorization header: what a server says
is searched for it before it becomes a message.
"""

import email.utils
import ipaddress
import random
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from docs_rag.errors import ConfigError, EmbeddingError
from docs_rag.records import Purpose, Secret
from docs_rag.replies import Reply, ReplyError, error_text, read_reply

CONNECT_TIMEOUT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 60.0
FIRST_WAIT_SECONDS = 0.5
MAX_REPLY_BYTES = 64_000_000
MAX_EXCERPT_CHARS = 200

# How often a request that failed so is tried in all; any other status fails at once.
# A plain 500 often means that this input breaks the server, so it gets less.
_TRIES = {408: 5, 429: 5, 500: 3, 502: 5, 503: 5, 504: 5, 529: 5}
_UNREACHABLE_TRIES = 5
_TIMEOUT_TRIES = 2

# Answers that may be about the texts sent rather than about the server.
_ABOUT_INPUT = frozenset({400, 413, 422, 500})

_REMEDIES = {
    400: "check EMBED_MODEL, and the server's limits on input",
    401: "check LMSTUDIO_API_KEY",
    403: "check LMSTUDIO_API_KEY and what it may use",
    404: "check EMBED_MODEL, and LMSTUDIO_BASE_URL, which usually ends in /v1",
    413: "raise the server's limit on the size of a request",
    429: "wait, or raise the rate limit of the server",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """
    How often a request is tried at most, and how long that may take in all.

    ``input_tries`` bounds the tries after an answer that may be about the texts sent:
    a server that only asks to wait is waited for all the same.
    """

    tries: int
    read_seconds: float
    total_seconds: float
    input_tries: int = max(_TRIES.values())


# Somebody waits for a query, and words alone can answer it; nobody waits for an index.
PATIENCE = {
    Purpose.QUERY: Patience(tries=2, read_seconds=8, total_seconds=10),
    Purpose.PASSAGE: Patience(tries=5, read_seconds=120, total_seconds=300),
}


@dataclass(frozen=True, slots=True)
class Pace:
    """The clock and the dice, to be replaced where waiting must not take time."""

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random


class EndpointError(EmbeddingError):
    """A request failed: ``status`` of the answer, and whether to try again when."""

    def __init__(
        self,
        message: str,
        status: int | None = None,
        tries: int = 1,
        retry_after_seconds: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.tries = tries
        self.retry_after_seconds = retry_after_seconds

    @property
    def about_input(self) -> bool:
        """Whether other texts may fare better than the ones that were sent."""
        return self.status in _ABOUT_INPUT


class Endpoint:
    """The address, the model and the key; safe to use from several threads."""

    def __init__(
        self, base_url: str, model: str, api_key: Secret, pace: Pace | None = None
    ) -> None:
        self.model = model
        self._url = embeddings_url(base_url)
        self._key = checked_key(api_key)
        self._pace = pace or Pace()
        # A proxy cannot reach this machine's loopback, so none is asked to.
        self._client = httpx.Client(
            trust_env=not is_loopback(self._url.host), follow_redirects=False
        )
        self._finalizer = weakref.finalize(self, self._client.close)

    def close(self) -> None:
        """Close the connections; also done when the endpoint is garbage."""
        self._finalizer()

    def ask(self, texts: Sequence[str], patience: Patience) -> Reply:
        """Return the checked reply; raise ``EndpointError`` when patience ends."""
        deadline = self._pace.monotonic() + patience.total_seconds
        tried = 0
        while True:
            tried += 1
            try:
                return self._ask_once(texts, patience, deadline)
            except EndpointError as error:
                wait = self._wait_seconds(tried, error.retry_after_seconds)
                late = self._pace.monotonic() + wait >= deadline
                if late or tried >= min(error.tries, _tries(patience, error)):
                    times = f" ({tried} tries)" if tried > 1 else ""
                    raise EndpointError(f"{error}{times}", error.status) from error
            self._pace.sleep(wait)

    def _wait_seconds(self, tried: int, retry_after_seconds: float) -> float:
        """Double the wait each time, scattered, and not before the server asks."""
        backoff = FIRST_WAIT_SECONDS * 2.0 ** (tried - 1)
        scattered = backoff * (0.5 + self._pace.random() / 2)
        return min(max(scattered, retry_after_seconds), LONGEST_WAIT_SECONDS)

    def _ask_once(
        self, texts: Sequence[str], patience: Patience, deadline: float
    ) -> Reply:
        remaining = max(0.1, deadline - self._pace.monotonic())
        timeout = httpx.Timeout(
            min(patience.read_seconds, remaining),
            connect=min(CONNECT_TIMEOUT_SECONDS, remaining),
        )
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        request = {"model": self.model, "input": list(texts)}
        try:
            with self._client.stream(
                "POST", self._url, json=request, headers=headers, timeout=timeout
            ) as response:
                body = self._read(response, deadline)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        if response.status_code != httpx.codes.OK:
            raise self._refusal(response.status_code, response.headers, body)
        try:
            return read_reply(body, len(texts))
        except ReplyError as error:
            raise EndpointError(
                f"{self._name} returned {self._excerpt(str(error))}; "
                "check that LMSTUDIO_BASE_URL is an OpenAI-compatible API "
                "and that EMBED_MODEL is an embedding model"
            ) from error

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        """Read the body, unless it is endless or trickles past the deadline."""
        body = bytearray()
        for part in response.iter_bytes():
            body += part
            if len(body) > MAX_REPLY_BYTES:
                raise EndpointError(
                    f"{self._name} returned more than {MAX_REPLY_BYTES:,} bytes; "
                    "check LMSTUDIO_BASE_URL"
                )
            if self._pace.monotonic() > deadline:
                raise httpx.ReadTimeout("the answer trickles in too slowly")
        return bytes(body)

    @property
    def _name(self) -> str:
        return f"embedding endpoint {self._url} (model {self.model!r})"

    def _unreachable(self, error: httpx.RequestError) -> EndpointError:
        reason = self._excerpt(str(error) or type(error).__name__)
        if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
            return EndpointError(
                f"{self._name} did not answer in time: {reason}; "
                "see whether the server is overloaded or still loading the model",
                tries=_TIMEOUT_TRIES,
            )
        return EndpointError(
            f"cannot reach {self._name}: {reason}; "
            "start the server, or correct LMSTUDIO_BASE_URL",
            tries=_UNREACHABLE_TRIES,
        )

    def _refusal(
        self, status: int, headers: Mapping[str, str], body: bytes
    ) -> EndpointError:
        if 300 <= status < 400:
            said = f"redirects to {headers.get('location', 'nowhere')}"
            remedy = "set LMSTUDIO_BASE_URL to the final address"
        else:
            # A server may quote the key, or part of it, when it refuses it.
            said = "" if status in (401, 403) else error_text(body)
            remedy = _REMEDIES.get(status, "see the log of the server")
        excerpt = self._excerpt(said)
        return EndpointError(
            f"{self._name} answered {status}{excerpt and ': '}{excerpt}; {remedy}",
            status=status,
            tries=_TRIES.get(status, 1),
            retry_after_seconds=retry_after_seconds(headers),
        )

    def _excerpt(self, said: str) -> str:
        """Return what a server said, without the key, on one short line."""
        if self._key:
            said = said.replace(self._key, "**********")
        line = " ".join(said.split())
        return line[:MAX_EXCERPT_CHARS] + ("…" if len(line) > MAX_EXCERPT_CHARS else "")


def _tries(patience: Patience, error: EndpointError) -> int:
    if error.about_input:
        return min(patience.tries, patience.input_tries)
    return patience.tries


def embeddings_url(base_url: str) -> httpx.URL:
    """Return the address to post to, or say what is wrong with ``base_url``."""
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise ConfigError(
            f"LMSTUDIO_BASE_URL is not a URL ({error}); "
            "use for example http://127.0.0.1:1234/v1"
        ) from error
    if url.userinfo or url.query or url.fragment:
        raise ConfigError(
            "LMSTUDIO_BASE_URL must not carry a user, a query or a fragment; "
            "put the key into LMSTUDIO_API_KEY"
        )
    port = 80 if url.port is None else url.port
    if url.scheme not in ("http", "https") or not url.host or not 0 < port < 65536:
        raise ConfigError(
            f"LMSTUDIO_BASE_URL {base_url!r} must start with http:// or https:// "
            "and name a host, and a port if any; use for example http://127.0.0.1:1234/v1"
        )
    path = url.path.rstrip("/").removesuffix("/embeddings")
    return url.copy_with(path=f"{path}/embeddings")


def checked_key(api_key: Secret) -> str:
    """Return the key if it can stand in a header."""
    key = api_key.reveal().strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            "LMSTUDIO_API_KEY holds a line break, a control character or a "
            "non-ASCII character; copy the key again"
        )
    return key


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine, by name or by address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """Read ``Retry-After``, in seconds or as a date; 0 where there is none."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    due = _moment(value)
    # By the server's own clock where it tells: ours may differ.
    sent = _moment(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (due - sent).total_seconds()) if due else 0.0


def _moment(value: str) -> datetime | None:
    """Parse an HTTP date; one in ``-0000`` comes without a zone and is in UTC."""
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
