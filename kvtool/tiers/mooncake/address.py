"""Where a Mooncake master listens: mooncake://HOST:PORT."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from kvtool.errors import ConfigError

SCHEME = "mooncake"
EXAMPLE = "mooncake://127.0.0.1:50051"
_MAX_NAME = 253
_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE | re.ASCII)


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


def join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_remote(url: str) -> Address:
    """Raises `ConfigError` for anything but mooncake://HOST:PORT."""
    try:
        parts = urlsplit(url)
    except ValueError:  # an unclosed bracket, a character that only looks like one of a URL
        raise _refused(url, "its host is neither a name nor an address") from None
    try:
        port = parts.port
    except ValueError:  # no number, or above 65535
        raise _refused(url, "its port is not a number from 1 to 65535") from None
    if parts.scheme != SCHEME:
        raise _refused(url, f"it does not begin with {SCHEME}://")
    if not parts.hostname:
        raise _refused(url, "it names no host")
    if not _is_host(parts.hostname):
        raise _refused(url, "its host is neither a name nor an address")
    if not port:
        raise _refused(url, "it names no port from 1 to 65535")
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise _refused(url, "there is more in it than host and port")
    return Address(parts.hostname, port)


def _is_host(host: str) -> bool:
    """A name that can be looked up, or an IP address; IPv6 in brackets has lost them here."""
    if ":" not in host:
        return len(host) <= _MAX_NAME and _NAME.fullmatch(host) is not None
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _refused(url: str, reason: str) -> ConfigError:
    return ConfigError(
        f"The remote store is {url!r}: {reason}; allowed: {SCHEME}://HOST:PORT.",
        hint=f"Give the address of its mooncake_master, for example {EXAMPLE}.",
    )
