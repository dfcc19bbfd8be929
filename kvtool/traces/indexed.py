"""Attributes with numbers in their names as the lists that they stand for."""

from __future__ import annotations

from typing import Any

from kvtool.traces.trace_request import Json

MAX_PARTS = 16  # of a name; no convention has more


def indexed(attributes: Json, prefix: str) -> list[Any]:
    """`prefix.0.role`, `prefix.1.role`, … as [{"role": …}, {"role": …}], to any depth, in the order
    of the numbers; [] where there is none. A list under the prefix itself counts too."""
    if isinstance(written := attributes.get(prefix), list):
        return written
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(f"{prefix}."):
            _put(tree, name[len(prefix) + 1 :].split(".", MAX_PARTS), value)
    found = _lists(tree)
    return found if isinstance(found, list) else []


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    *parents, leaf = path
    for name in parents:
        inside = tree.setdefault(name, {})
        if not isinstance(inside, dict):
            return
        tree = inside
    tree.setdefault(leaf, value)


def _lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdecimal() for name in tree):
        return [_lists(tree[name]) for name in sorted(tree, key=int)]
    return {name: _lists(value) for name, value in tree.items()}
