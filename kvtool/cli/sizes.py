"""Byte sizes as people write them: GiB and MiB are powers of two, GB and MB powers of ten."""

from __future__ import annotations

import re

UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_UNIT_BY_LOWER = {unit.lower(): factor for unit, factor in UNITS.items()}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")


def parse_size(text: str | int) -> int:
    """Bytes of `"2GiB"`, `"1.5 MB"` or a plain number; `ValueError` says what is allowed."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.strip())
    factor = _UNIT_BY_LOWER.get(match[2].lower() or "b") if match else None
    if match is None or factor is None:
        raise ValueError(
            f"{text!r} is not a size; allowed: a number and one of {', '.join(UNITS)}."
        )
    from decimal import Decimal

    num_bytes = int(Decimal(match[1]) * factor)
    if num_bytes < 1:
        raise ValueError(f"{text!r} is {num_bytes} bytes; it must be at least 1.")
    return num_bytes


def format_size(num_bytes: int) -> str:
    """The largest power-of-two unit that keeps the number at 1 or more."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if num_bytes >= UNITS[unit]:
            return f"{num_bytes / UNITS[unit]:.1f} {unit}"
    return f"{num_bytes} B"
