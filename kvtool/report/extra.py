"""What the page needs beside kvtool's own dependencies."""

from __future__ import annotations

from importlib.util import find_spec

from kvtool.errors import ConfigError

PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python"}


def check_report_extra() -> None:
    """Raises `ConfigError` where a package is missing; imports none of them."""
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"--report draws its charts with {' and '.join(missing)}, which is not installed.",
            hint="pip install 'kvtool[report]'",
        )
