"""
May the server listen there, and under which names does it answer: a pure decision.

Whoever can reach the server from outside this machine must hold the token. What is
not recognised as harmless counts as exposed; what is not an address is refused.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from docs_rag.authority import (
    Authority,
    Origin,
    canonical_host,
    host_address,
    parse_authority,
    parse_origin,
)
from docs_rag.errors import ConfigError, UnsafeBindingError
from docs_rag.records import Secret

TOKEN_MIN_CHARS = 32
UNIX_PREFIX = "unix:"
# A socket's path must fit the kernel's field; macOS has the smaller one.
UNIX_PATH_MAX_BYTES = 103

_SHOWN_MAX_CHARS = 80
_TOKEN_REMEDY = (
    f"at least {TOKEN_MIN_CHARS} random characters, for instance from: "
    "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
)
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Exposure(enum.StrEnum):
    """Who can open a connection to the server."""

    LOOPBACK = "loopback"
    UNIX_SOCKET = "unix socket"
    EXPOSED = "exposed"


@dataclass(frozen=True, slots=True)
class Binding:
    """
    Where the server listens, and under which names it answers.

    ``host`` is canonical, as it stands in a URL; ``addresses`` are what sockets bind
    to (none for a unix socket). In ``names`` a port is one that a proxy in front
    uses; a name without one stands for the server's own port.
    """

    exposure: Exposure
    host: str
    addresses: tuple[str, ...]
    names: frozenset[Authority]
    origins: frozenset[Origin]
    reason: str

    @property
    def unix_path(self) -> str | None:
        """The file of the unix socket, or None for TCP."""
        if self.exposure is not Exposure.UNIX_SOCKET:
            return None
        return self.host.removeprefix(UNIX_PREFIX)


def decide_binding(
    host: str,
    token: Secret | None,
    allowed_hosts: Sequence[str] = (),
    allowed_origins: Sequence[str] = (),
) -> Binding:
    """Decide whether to listen on ``host``; raise ``UnsafeBindingError`` if not."""
    names = {Authority(name) for name in _LOOPBACK_HOSTS}
    names.update(map(_listed_host, allowed_hosts))
    origins = frozenset(map(_listed_origin, allowed_origins))
    if host.startswith(UNIX_PREFIX):
        exposure, canonical, addresses = _unix_socket(host)
    else:
        exposure, canonical, addresses = _tcp(host)
        if not _is_wildcard(canonical):
            names.add(Authority(canonical))
    require_token(exposure, host, token)
    reason = _reason(exposure, token)
    return Binding(exposure, canonical, addresses, frozenset(names), origins, reason)


def require_token(exposure: Exposure, host: str, token: Secret | None) -> None:
    """Raise ``UnsafeBindingError`` for a weak token, or none where one is needed."""
    if token is not None:
        _check_strength(token)
    elif exposure is Exposure.EXPOSED:
        raise _unsafe(host, "other machines may reach it, and no token is set")


def preflight(
    host: str,
    port: int,
    token: Secret | None,
    allowed_hosts: Sequence[str] = (),
    allowed_origins: Sequence[str] = (),
) -> tuple[bool, str]:
    """Say whether a server would start with these settings, and what it would do."""
    try:
        binding = decide_binding(host, token, allowed_hosts, allowed_origins)
    except (ConfigError, UnsafeBindingError) as error:
        return False, f"refused: {error}"
    sockets = [f"{address} port {port}" for address in binding.addresses]
    where = binding.unix_path or " and ".join(sockets)
    origins = ["its own", *sorted(map(str, binding.origins))]
    lines = (
        f"listens on: {where} ({binding.reason})",
        f"token: {'asked of every request' if token else 'none'}",
        f"answers to Host: {', '.join(sorted(map(str, binding.names)))}",
        f"answers to Origin: {', '.join(origins)}, or none sent",
    )
    return True, "\n".join(lines)


def shown(value: str) -> str:
    """Return a value from outside so that it fits a line of a message or a log."""
    cut = value[:_SHOWN_MAX_CHARS]
    return ascii(cut if cut == value else cut + "…")


def _tcp(host: str) -> tuple[Exposure, str, tuple[str, ...]]:
    if not host.strip():
        raise UnsafeBindingError(
            f"RAG_HOST is blank ({shown(host)}), which could mean every interface: "
            "say 127.0.0.1 for this machine only, or 0.0.0.0 with RAG_AUTH_TOKEN set"
        )
    is_bare_ipv6 = ":" in host and not host.startswith("[")
    canonical = canonical_host(f"[{host}]" if is_bare_ipv6 else host)
    if canonical is None:
        raise _unsafe(host, "it is neither an address nor a host name")
    if canonical == "localhost":
        # Clients differ in which of the two they try, and some try only one.
        return Exposure.LOOPBACK, canonical, ("127.0.0.1", "::1")
    address = host_address(canonical)
    is_loopback = address is not None and address.is_loopback
    exposure = Exposure.LOOPBACK if is_loopback else Exposure.EXPOSED
    return exposure, canonical, (canonical.strip("[]"),)


def _unix_socket(host: str) -> tuple[Exposure, str, tuple[str, ...]]:
    path = host.removeprefix(UNIX_PREFIX)
    if not path.startswith("/") or not path.isprintable():
        raise _unsafe(host, "a unix socket is named by an absolute path")
    if len(path.encode()) > UNIX_PATH_MAX_BYTES:
        raise _unsafe(host, f"its path is longer than {UNIX_PATH_MAX_BYTES} bytes")
    return Exposure.UNIX_SOCKET, host, ()


def _reason(exposure: Exposure, token: Secret | None) -> str:
    if exposure is Exposure.EXPOSED:
        return "other machines may reach it; the token guards it"
    whose = "this user" if exposure is Exposure.UNIX_SOCKET else "this machine"
    return f"only {whose} can reach it{'' if token else '; no token is needed'}"


def _unsafe(host: str, reason: str) -> UnsafeBindingError:
    return UnsafeBindingError(
        f"RAG_HOST is {shown(host)}: {reason}; set RAG_HOST=127.0.0.1, or name an "
        f"address and set RAG_AUTH_TOKEN to {_TOKEN_REMEDY}"
    )


def _check_strength(token: Secret) -> None:
    text = token.reveal()
    if not text.strip():
        fault = "is set but blank"
    elif not all("!" <= character <= "~" for character in text):
        fault = "holds white space, or a character that is not plain ASCII"
    elif len(text) < TOKEN_MIN_CHARS:
        fault = f"is shorter than {TOKEN_MIN_CHARS} characters"
    else:
        return
    raise UnsafeBindingError(f"RAG_AUTH_TOKEN {fault}: set it to {_TOKEN_REMEDY}")


def _listed_host(entry: str) -> Authority:
    named = parse_authority(entry)
    if named is None or _is_wildcard(named.host):
        raise ConfigError(
            f"RAG_ALLOWED_HOSTS holds {shown(entry)}, which is not one host: write "
            "docs.example.com or docs.example.com:8443, without scheme or wildcard"
        )
    return named


def _listed_origin(entry: str) -> Origin:
    origin = parse_origin(entry)
    if origin is None or _is_wildcard(origin.authority.host):
        raise ConfigError(
            f"RAG_ALLOWED_ORIGINS holds {shown(entry)}, which is not one origin: "
            "write https://docs.example.com, without path or wildcard"
        )
    return origin


def _is_wildcard(host: str) -> bool:
    address = host_address(host)
    return address is not None and address.is_unspecified
