"""
Hosts and origins as clients spell them, brought to one canonical spelling.

Two spellings compare equal exactly when they mean the same host and port; what is
not plainly a host is None, never a guess.
"""

import ipaddress
import re
from dataclasses import dataclass

_HOST_MAX_CHARS = 253
_DEFAULT_PORTS = {"http": 80, "https": 443}

# The classes are spelled out: with IGNORECASE, or after lower(), the Kelvin sign
# would pass for a "k".
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMERIC_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_AUTHORITY = re.compile(
    r"(?P<host>\[[^\[\]]*\]|[^\[\]:]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
)
_ORIGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>.+)")


@dataclass(frozen=True, slots=True)
class Authority:
    """A canonical host as it stands in a URL, with the port if one was given."""

    host: str
    port: int | None = None

    def __str__(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Origin:
    """A web origin; a default port of http and https is spelled out."""

    scheme: str
    authority: Authority

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def canonical_host(text: str) -> str | None:
    """
    Return the one spelling of ``text``, or None where it is not a host.

    Names in lower case without the trailing dot, IPv4 in four decimal parts, IPv6
    compressed and in brackets. An IPv4 address wrapped in IPv6 is the IPv4 address.
    """
    if text.startswith("[") and text.endswith("]"):
        return _canonical_ipv6(text[1:-1])
    name = text.removesuffix(".")
    if len(name) > _HOST_MAX_CHARS or not _NAME.fullmatch(name):
        return None
    if _NUMERIC_END.fullmatch(name):
        return _canonical_ipv4(name)
    return name.lower()


def address_host(address: str) -> str | None:
    """Return the canonical host of an address as sockets give it: bare, zoned."""
    bare = address.partition("%")[0]
    return canonical_host(f"[{bare}]" if ":" in bare else bare)


def host_address(
    host: str,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a canonical host is, or None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def parse_authority(value: str) -> Authority | None:
    """Parse ``host[:port]`` strictly; None for anything else."""
    match = _AUTHORITY.fullmatch(value)
    host = canonical_host(match["host"]) if match else None
    if match is None or host is None:
        return None
    port = int(match["port"]) if match["port"] else None
    if port is not None and port > 65535:
        return None
    return Authority(host, port)


def parse_origin(value: str) -> Origin | None:
    """Parse ``scheme://host[:port]`` strictly; None for anything else."""
    match = _ORIGIN.fullmatch(value)
    authority = parse_authority(match["authority"]) if match else None
    if match is None or authority is None:
        return None
    scheme = match["scheme"].lower()
    port = authority.port or _DEFAULT_PORTS.get(scheme)
    return Origin(scheme, Authority(authority.host, port))


def _canonical_ipv4(text: str) -> str | None:
    # "127.1", "0x7f000001" and "2130706433" mean an address to some resolvers and
    # not to others, so they mean nothing here.
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        return None


def _canonical_ipv6(text: str) -> str | None:
    if "%" in text:
        return None
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"[{address.compressed}]"
