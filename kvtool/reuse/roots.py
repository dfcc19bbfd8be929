"""Namespaces as numbers, for columns and keys."""

from __future__ import annotations


class Roots:
    """Negative ids of the namespaces that have children: given out once and never again."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._namespaces: dict[int, bytes] = {}
        self._num_children: dict[int, int] = {}
        self._next = -1

    def find(self, namespace: bytes) -> int | None:
        return self._ids.get(namespace)

    def add_child(self, namespace: bytes) -> int:
        root = self._ids.get(namespace)
        if root is None:
            root, self._next = self._next, self._next - 1
            self._ids[namespace] = root
            self._namespaces[root] = namespace
            self._num_children[root] = 0
        self._num_children[root] += 1
        return root

    def remove_child(self, root: int) -> None:
        self._num_children[root] -= 1
        if self._num_children[root] == 0:
            del self._num_children[root]
            del self._ids[self._namespaces.pop(root)]
