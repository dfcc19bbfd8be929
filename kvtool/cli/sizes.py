"""Byte sizes as people write them: GiB and MiB are powers of two, GB and MB powers of ten."""

from __future__ import annotations

import re

UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "PiB": 2**50,
}
_UNIT_BY_LOWER = {unit.lower(): factor for unit, factor in UNITS.items()}
_SIZE = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,40})?)\s*([A-Za-z]*)")
MAX_BYTES = 2**63 - 1


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
    from fractions import Fraction

    num_bytes = int(Fraction(match[1]) * factor)
    if not 1 <= num_bytes <= MAX_BYTES:
        raise ValueError(
            f"{text!r} is out of range; allowed: 1B to {MAX_BYTES // UNITS['TiB']}TiB."
        )
    return num_bytes


def format_size(num_bytes: int) -> str:
    """The largest power-of-two unit that keeps the rounded number at 1 or more."""
    for unit in ("PiB", "TiB", "GiB", "MiB", "KiB"):
        if round(1024 * num_bytes / UNITS[unit], 1) >= 1024:  # 1023.99 KiB is 1.0 MiB
            return f"{num_bytes / UNITS[unit]:.1f} {unit}"
    return f"{num_bytes} B"
