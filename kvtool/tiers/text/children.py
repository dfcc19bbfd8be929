"""Which blocks stand behind a block: mostly one, sometimes many."""

from __future__ import annotations


class Children:
    """A single child is kept as it is, several as a list."""

    def __init__(self) -> None:
        self._only: dict[int, int] = {}
        self._many: dict[int, list[int]] = {}

    def of(self, parent: int) -> list[int]:
        only = self._only.get(parent)
        return self._many.get(parent, []) if only is None else [only]

    def add(self, parent: int, child: int) -> None:
        if parent in self._many:
            self._many[parent].append(child)
        elif parent in self._only:
            self._many[parent] = [self._only.pop(parent), child]
        else:
            self._only[parent] = child

    def remove(self, parent: int, child: int) -> None:
        if self._only.get(parent) == child:
            del self._only[parent]
            return
        siblings = self._many[parent]
        siblings.remove(child)
        if len(siblings) == 1:
            self._only[parent] = siblings[0]
            del self._many[parent]

    @property
    def num_links(self) -> int:
        return len(self._only) + sum(map(len, self._many.values()))
