"""Where a Mooncake master listens: mooncake://HOST:PORT."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from kvtool.errors import ConfigError

SCHEME = "mooncake"
EXAMPLE = "mooncake://127.0.0.1:50051"


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
        port = parts.port
    except ValueError:  # a port that is no number or above 65535, an unclosed bracket
        raise _refused(url, "its port is not a number from 1 to 65535") from None
    if parts.scheme != SCHEME:
        raise _refused(url, f"it does not begin with {SCHEME}://")
    if not parts.hostname:
        raise _refused(url, "it names no host")
    if not port:
        raise _refused(url, "it names no port from 1 to 65535")
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise _refused(url, "there is more in it than host and port")
    return Address(parts.hostname, port)


def _refused(url: str, reason: str) -> ConfigError:
    return ConfigError(
        f"The remote store is {url!r}: {reason}; allowed: {SCHEME}://HOST:PORT.",
        hint=f"Give the address of its mooncake_master, for example {EXAMPLE}.",
    )
