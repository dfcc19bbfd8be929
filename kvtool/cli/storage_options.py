"""Where KV is kept beyond the block pool: host memory, disk, a remote store."""

from __future__ import annotations

from typing import Annotated

from kvtool.cli.options import STORAGE, option
from kvtool.cli.parsers import non_empty
from kvtool.cli.sizes import format_size, parse_size
from kvtool.config import DEFAULT_CACHE_SIZE


def parse_remote_url(url: str) -> str:
    """Raises `ConfigError` for anything but mooncake://HOST:PORT."""
    from kvtool.tiers.mooncake import parse_remote

    parse_remote(url)
    return url


def parse_size_or_zero(text: str | int) -> int:
    """A size, or 0 for none."""
    return 0 if isinstance(text, str) and text.strip() == "0" else parse_size(text)


STORAGE_OPTIONS = {
    "cache_dir": Annotated[
        str | None,
        option(
            STORAGE,
            "--cache-dir",
            parser=non_empty,
            metavar="DIR",
            help="Folder that keeps KV for later runs.",
            show_default="KVTOOL_CACHE_DIR, or the user's cache folder",
        ),
    ],
    "no_cache_dir": Annotated[
        bool,
        option(STORAGE, "--no-cache-dir", help="Keep no KV on disk and use none from there."),
    ],
    "cache_size": Annotated[
        int,
        option(
            STORAGE,
            "--cache-size",
            parser=parse_size,
            metavar="SIZE",
            help="Most bytes on disk; what was used longest ago makes room.",
            show_default=format_size(DEFAULT_CACHE_SIZE).replace(".0 ", ""),
        ),
    ],
    "durable": Annotated[
        bool,
        option(
            STORAGE,
            "--durable",
            help="Wait until the disk has what is stored, so that a power cut loses nothing.",
        ),
    ],
    "remote": Annotated[
        str | None,
        option(
            STORAGE,
            "--remote",
            parser=parse_remote_url,
            metavar="URL",
            help="Share KV through a Mooncake store: mooncake://HOST:PORT of its master.",
        ),
    ],
    "host_memory": Annotated[
        int | None,
        option(
            STORAGE,
            "--host-memory",
            parser=parse_size_or_zero,
            metavar="SIZE",
            help="Host memory for KV that leaves the block pool; 0: none. Default: a quarter of "
            "the free memory where the model runs on an accelerator, else none.",
        ),
    ],
}
