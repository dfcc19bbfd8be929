"""Content-defined anchors: places that equal texts choose alike, wherever they stand.

Winnowing (Schleimer, Wilkerson and Aiken, SIGMOD 2003): of every WINDOWS neighbouring token
windows the one with the smallest hash. Two texts that have ANCHOR_TOKENS + WINDOWS - 1 = 127
tokens in common have an anchor in common; one token in 32 or so begins one.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from kvtool.cache.block_hash import token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.rolling_hash import window_hashes

ANCHOR_TOKENS = 64
WINDOWS = 64
# The low bits of the rolling hash depend on few of the tokens' bits: the order must not.
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)
_FOLD = np.uint64(33)


def anchor_names(namespace: bytes, tokens: Tokens) -> list[str]:
    """Names in the store of all anchors of a text, each once. They tell nobody the text."""
    seed = sha256(b"kvtool text anchor\0" + namespace)
    names = []
    for start in _anchors(tokens):
        digest = seed.copy()
        digest.update(token_bytes(tokens[start : start + ANCHOR_TOKENS]))
        names.append(f"kvtool/1/text/{digest.hexdigest()}")
    return names


def _anchors(tokens: Tokens) -> list[int]:
    """Where they begin; of those with one hash the first, so repetitions make few."""
    hashes = window_hashes(tokens, ANCHOR_TOKENS)
    if not len(hashes):
        return []
    order = (hashes ^ (hashes >> _FOLD)) * _SPREAD
    windows = np.lib.stride_tricks.sliding_window_view(order, min(WINDOWS, len(order)))
    places = np.unique(windows.argmin(axis=1) + np.arange(len(windows)))
    _, first = np.unique(order[places], return_index=True)
    found: list[int] = places[np.sort(first)].tolist()
    return found
