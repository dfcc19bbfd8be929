"""Named choices: a table maps a name to `"module:attribute"`, looked up lazily.

Every choice a user can make by name (eviction policy, prefix index, model reader, …) is one
line in such a table, so adding one is one file or function plus one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from kvtool.errors import ConfigError

Table = Mapping[str, str]


def lookup(table: Table, name: str, what: str) -> Any:
    """The object behind `name`; raises `ConfigError` that lists what is allowed."""
    if name not in table:
        near = difflib.get_close_matches(name, table, n=1)
        raise ConfigError(
            f"Unknown {what} {name!r}; allowed: {', '.join(table)}.",
            hint=f"Did you mean {near[0]!r}?" if near else None,
        )
    module, attribute = table[name].split(":")
    return getattr(import_module(module), attribute)
