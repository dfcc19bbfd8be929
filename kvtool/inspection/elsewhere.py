"""The same tokens under other namespaces, and what makes those others."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.cache.namespace import Namespace
from kvtool.inspection.namespaces import (
    FieldDifference,
    StoredNamespace,
    differences,
    stored_namespaces,
    visible_fields,
)
from kvtool.inspection.stored_prefix import stored_prefix
from kvtool.tiers.disk.catalog import Catalog


class Elsewhere(NamedTuple):
    """num_tokens: how much of the prompt, from its start, is stored there."""

    namespace: StoredNamespace
    num_tokens: int
    differences: tuple[FieldDifference, ...]


def closest_elsewhere(catalog: Catalog, namespace: Namespace, tokens: Tokens) -> Elsewhere | None:
    """The other namespace that has most of the prompt, of several the one that differs least."""
    asked = visible_fields(namespace)
    found = [
        Elsewhere(other, _stored_tokens(catalog, other, tokens), differences(asked, other.fields))
        for other in stored_namespaces(catalog.entries())
        if other.digest != namespace.digest
    ]
    return max(found, key=lambda e: (e.num_tokens, -len(e.differences)), default=None)


def _stored_tokens(catalog: Catalog, other: StoredNamespace, tokens: Tokens) -> int:
    return stored_prefix(catalog, BlockKeys(other.digest, tokens, other.block_size)).num_tokens
