"""Colours, as CSS variables that the page sets for light and for dark; the fallback is the light
one, so that a picture taken out of the page keeps its colours.

Each that carries meaning stands out from the paper by 3:1 at least, text by 4.5:1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Colour(NamedTuple):
    light: str
    dark: str


PALETTE = {
    "paper": Colour("#ffffff", "#171a21"),
    "ink": Colour("#1b1f27", "#eceff4"),
    "muted": Colour("#565e6c", "#a7b0bf"),
    "grid": Colour("#e3e6eb", "#2f3542"),
    "accent": Colour("#0f62a8", "#6cb6ff"),
    "hit": Colour("#217a4a", "#4cc38a"),
    "first_sight": Colour("#8a93a3", "#7f8a9c"),
    "diverged": Colour("#2a6fdb", "#68a4ff"),
    "context_rewritten": Colour("#d9660a", "#ff9a4d"),
    "capacity": Colour("#c02b3c", "#ff6b78"),
    "policy": Colour("#b0399b", "#f08ae0"),
    "ttl": Colour("#7a4a1e", "#c99a6b"),
    "in_flight": Colour("#6a4bc4", "#b39bff"),
    "partial_block": Colour("#5d6675", "#b4bdcb"),
    "other_namespace": Colour("#0f7f86", "#4fd0d8"),
    "reply_rerendered": Colour("#9a7400", "#e9c046"),
    "truncated_window": Colour("#4d7a12", "#a3d65c"),
    "below_block_floor": Colour("#3c434f", "#dbe1ea"),
    "held": Colour("#d9660a", "#ff9a4d"),
    "cached": Colour("#217a4a", "#4cc38a"),
    "free": Colour("#e3e6eb", "#2f3542"),
    "lru": Colour("#0f62a8", "#6cb6ff"),
    "policy-1": Colour("#d9660a", "#ff9a4d"),
    "policy-2": Colour("#6a4bc4", "#b39bff"),
    "policy-3": Colour("#0f7f86", "#4fd0d8"),
    "policy-4": Colour("#c02b3c", "#ff6b78"),
    "policy-5": Colour("#4d7a12", "#a3d65c"),
    "policy-6": Colour("#7a4a1e", "#c99a6b"),
}


def colour(name: str) -> str:
    """A name without a colour of its own is muted."""
    name = name if name in PALETTE else "muted"
    return f"var(--{name}, {PALETTE[name].light})"


def colours(names: Iterable[str]) -> list[str]:
    return [colour(name) for name in names]


def variables(theme: str) -> str:
    """CSS declarations. theme: light or dark."""
    return " ".join(f"--{name}: {getattr(value, theme)};" for name, value in PALETTE.items())
