"""How deep a document of others may be nested: whoever walks it afterwards may recurse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_DEPTH = 100  # objects and lists in each other; far below what templates or serialisers can take


def is_too_deep(document: object) -> bool:
    """Whether objects and lists are nested more than `MAX_DEPTH` deep; does not recurse itself."""
    level: list[object] = [document]
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [inner for outer in level for inner in _containers(outer)]
    return any(isinstance(value, (Mapping, list, tuple)) for value in level)


def _containers(value: object) -> Iterable[object]:
    """The objects and lists in an object or list."""
    if isinstance(value, Mapping):
        inside: Iterable[object] = value.values()
    else:
        inside = value if isinstance(value, (list, tuple)) else ()
    return (child for child in inside if isinstance(child, (Mapping, list, tuple)))
