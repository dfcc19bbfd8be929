"""Which runs `--prune` names: `all`, `older:AGE`, `unused:AGE`, `model:NAME`, or a key.

    all          everything
    older:7d     stored more than seven days ago (units: s, m, h, d, w)
    unused:12h   not read for twelve hours
    model:Llama  of a model whose architecture or weights digest begins so
    3fa2b1       the run whose key begins so, and all that continues it

A pinned run stays. So does one that a run which stays continues: without it, nothing would find
that one any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kvtool.inspection.changes import Change, change_of
from kvtool.inspection.kinship import with_heads, with_tails
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
GRAMMAR = "all, older:AGE, unused:AGE (7d, 12h, 30m), model:NAME, or a key"

_AGE = re.compile(r"([0-9]{1,9})([smhdw])")
_KEY = re.compile(r"[0-9a-f]+")


def is_prune_target(what: str) -> bool:
    """Whether `prune_plan` can read it."""
    name, _, value = what.partition(":")
    if name in ("older", "unused"):
        return _AGE.fullmatch(value) is not None
    return what == "all" or (name == "model" and value != "") or bool(_KEY.fullmatch(what))


def prune_plan(catalog: Catalog, what: str, now: float) -> Change:
    """The runs that would go. now: unix seconds. Raises `CacheError` for a key that is not stored."""
    assert is_prune_target(what), what
    entries = catalog.entries()
    named = _named(catalog, entries, what, now)
    staying = [entry for entry in entries if entry.pinned or entry.key not in named]
    kept = named & with_heads(entries, staying)
    going = [entry for entry in entries if entry.key in named - kept]
    return change_of(going, kept=len(kept))


def _named(catalog: Catalog, entries: Sequence[Entry], what: str, now: float) -> set[str]:
    name, _, value = what.partition(":")
    tests: dict[str, Callable[[Entry], bool]] = {
        "all": lambda entry: True,
        "older": lambda entry: now - entry.created > _seconds(value),
        "unused": lambda entry: now - entry.last_used > _seconds(value),
        "model": lambda entry: _is_of_model(entry, value),
    }
    if name not in tests:
        return with_tails(entries, catalog.find(what))
    return {entry.key for entry in entries if tests[name](entry)}


def _seconds(age: str) -> int:
    match = _AGE.fullmatch(age)
    assert match
    return int(match[1]) * SECONDS[match[2]]


def _is_of_model(entry: Entry, name: str) -> bool:
    stated = (str(entry.fields.get(field, "")) for field in ("architecture", "weights"))
    return any(value.lower().startswith(name.lower()) for value in stated)
