"""Whose KV may be shared with whom: the first part of every key, in every tier."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from hashlib import sha256


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """Two requests share KV only if all of this is equal. `None` means "none" and differs from "".

    weights, tokenizer and adapter are digests of contents, not names. implementation: what else
    must agree for bit-identical logits (deterministic mode only).
    """

    weights: str
    architecture: str
    rope_regime: str
    compute_dtype: str
    kv_dtype: str
    kv_layout: str
    block_size: int
    tokenizer: str
    adapter: str | None = None
    salt: str | None = None
    implementation: str | None = None

    @cached_property
    def digest(self) -> bytes:
        """sha256 over the fields, each as length + name, presence byte, length + value."""
        hasher = sha256(b"kvtool namespace 1\0")
        for field in fields(self):
            value = getattr(self, field.name)
            hasher.update(_framed(field.name))
            if value is None:
                hasher.update(b"\0")
            else:
                hasher.update(b"\1" + _framed(str(value)))
        return hasher.digest()

    def described(self) -> dict[str, object]:
        """Its fields, for people; a salt only as "set", since whoever knows it shares KV."""
        salt = None if self.salt is None else "set"
        return {**asdict(self), "salt": salt}


def _framed(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "little") + data
