"""The namespaces of stored KV as people may see them, and in what two of them differ.

A salt is never shown: it is unset, set, or set to another value than the one it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from kvtool.cache.namespace import Namespace
from kvtool.tiers.disk.entry import Entry

FIELDS = tuple(field.name for field in fields(Namespace))


@dataclass(frozen=True, slots=True)
class StoredNamespace:
    """number: from 1, to tell namespaces apart that differ in their salt alone. fields: those of
    `Namespace` as they are kept beside stored KV; empty where nobody described it."""

    number: int
    digest: bytes
    block_size: int
    fields: Mapping[str, object]

    def as_dict(self) -> dict[str, object]:
        return {"number": self.number, **{name: self.fields.get(name) for name in FIELDS}}


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """asked: the value that was looked for, or of the first of two. stored: the other one."""

    field: str
    asked: object
    stored: object


def stored_namespaces(entries: Iterable[Entry]) -> list[StoredNamespace]:
    """Each once, in an order that depends on their contents alone."""
    found = {entry.namespace: entry for entry in entries}
    ordered = sorted(found.values(), key=lambda entry: (_values(entry), entry.namespace))
    return [
        StoredNamespace(number, entry.namespace, entry.block_size, entry.fields)
        for number, entry in enumerate(ordered, 1)
    ]


def _values(entry: Entry) -> list[str]:
    return [str(entry.fields.get(name)) for name in FIELDS]


def visible_fields(namespace: Namespace) -> dict[str, object]:
    """The fields as they are kept beside stored KV: of a salt only that there is one."""
    values: dict[str, object] = {name: getattr(namespace, name) for name in FIELDS}
    return values | {"salt": None if namespace.salt is None else "set"}


def differences(
    asked: Mapping[str, object], stored: Mapping[str, object]
) -> tuple[FieldDifference, ...]:
    """Of two namespaces that are not the same. Equal fields leave the salt, whose value is hidden."""
    found = tuple(
        FieldDifference(name, asked.get(name), stored.get(name))
        for name in FIELDS
        if name != "salt" and asked.get(name) != stored.get(name)
    )
    ours, theirs = asked.get("salt"), stored.get("salt")
    if ours is None and theirs is None:
        return found
    if ours is not None and theirs is not None:
        return found or (FieldDifference("salt", "set", "other"),)
    words = {True: "unset", False: "set"}
    return (*found, FieldDifference("salt", words[ours is None], words[theirs is None]))
