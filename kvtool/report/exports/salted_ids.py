"""Ids that tell which blocks are equal, and nothing about what is in them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from hashlib import blake2b

from kvtool.traces.prepared import PreparedRequest, Unit
from kvtool.traces.trace_request import BlockPrompt


class SaltedIds:
    """Keyed BLAKE2b. Equal ids for what is equal in one namespace (model, adapter, salt), other ids
    in another one, so that a reader who looks at nothing but ids keeps them apart.

    salt: at most 64 bytes; by default a new secret.
    """

    def __init__(self, salt: bytes | None = None) -> None:
        self._salt = secrets.token_bytes(32) if salt is None else salt

    def name(self, kind: str, text: str) -> str:
        """A pseudonym of a session, request, adapter or salt."""
        return self._digest(kind, text.encode("utf-8", "surrogatepass")).hex()[:16]

    def blocks(self, prepared: PreparedRequest, unit: Unit) -> list[int]:
        """63-bit numbers, one a block, of text also one for a rest that fills none."""
        prompt = prepared.request.prompt
        found = (
            self._recorded(prompt, prepared)
            if isinstance(prompt, BlockPrompt)
            else self._chained(prepared, unit.block_size)
        )
        return [int.from_bytes(digest[:8], "big") >> 1 for digest in found]

    def _recorded(self, prompt: BlockPrompt, prepared: PreparedRequest) -> Iterator[bytes]:
        """One for one, whether the trace's ids are chained or not."""
        head = prepared.namespace + json.dumps(prepared.request.scope).encode()
        for hash_id in prompt.hash_ids:
            yield self._digest("block", head + json.dumps(hash_id).encode())

    def _chained(self, prepared: PreparedRequest, size: int) -> Iterator[bytes]:
        """Of text an id stands for all tokens up to the block's end, as in Mooncake's traces."""
        digest = self._digest("namespace", prepared.namespace)
        tokens = prepared.symbols.astype("<i4")
        for start in range(0, len(tokens), size):
            digest = self._digest("block", digest + tokens[start : start + size].tobytes())
            yield digest

    def _digest(self, kind: str, content: bytes) -> bytes:
        return blake2b(content, digest_size=32, key=self._salt, person=kind.encode()).digest()
