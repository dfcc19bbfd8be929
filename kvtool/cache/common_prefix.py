"""How far two token sequences agree."""

from __future__ import annotations

import numpy as np

from kvtool.cache.block_pool import Tokens


def common_prefix(a: Tokens, b: Tokens) -> int:
    length = min(len(a), len(b))
    differs = a[:length] != b[:length]
    return int(np.argmax(differs)) if differs.any() else length
