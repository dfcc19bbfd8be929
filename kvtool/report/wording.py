"""Numbers and names as the page writes them."""

from __future__ import annotations

import re

NOTHING = "\N{EN DASH}"
# Controls, which XML cannot hold; marks that turn the direction of text; lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def clean(text: str) -> str:
    """Text of a trace, safe in a page; line breaks stay."""
    return _UNPRINTABLE.sub("\ufffd", text)


def line(text: str, limit: int = 200) -> str:
    """The same in one line, its middle left out where it is long."""
    text = " ".join(clean(text).split())
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 2 + 1 :]}"


def percent(share: float | None, digits: int = 2) -> str:
    return NOTHING if share is None else f"{100 * share:.{digits}f} %"


def points(share: float | None) -> str:
    """A difference of shares."""
    return NOTHING if share is None else f"{share:+.2f} pp"


def whole(number: float | None) -> str:
    if number is None:
        return NOTHING
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def short(number: float | None) -> str:
    """Three figures: 12.3 M."""
    if number is None:
        return NOTHING
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def size(num_bytes: float | None) -> str:
    if num_bytes is None:
        return NOTHING
    power = 0
    while num_bytes >= 1024 and power < len(_UNITS) - 1:
        num_bytes, power = num_bytes / 1024, power + 1
    return f"{num_bytes:.4g} {_UNITS[power]}"


def seconds(time: float | None) -> str:
    if time is None:
        return NOTHING
    if time < 1:
        return f"{1e3 * time:.3g} ms"
    if time < 120:
        return f"{time:.3g} s"
    if time < 7200:
        return f"{time / 60:.3g} min"
    return f"{time / 3600:.3g} h"


def named(name: str) -> str:
    """A key of the document as words."""
    return name.replace("_", " ")
