"""The keys of a prompt's blocks, the same in every tier and process."""

from __future__ import annotations

from kvtool.cache.block_hash import hash_block, root_hash, token_bytes
from kvtool.cache.block_pool import Tokens


class BlockKeys:
    """Chained block hashes of one token sequence, computed as far as they are asked for.

    A key stands for a namespace, the tokens of a block and all tokens in front of it. The last
    block may have fewer than `block_size` tokens; its key is made in the same way.
    """

    def __init__(self, namespace: bytes, tokens: Tokens, block_size: int) -> None:
        self.namespace = namespace
        self.tokens = tokens
        self.block_size = block_size
        self._chain = [root_hash(namespace)]

    @property
    def num_full_blocks(self) -> int:
        return len(self.tokens) // self.block_size

    def __len__(self) -> int:
        """Blocks, a partial last one included."""
        return -(-len(self.tokens) // self.block_size)

    def parent(self, position: int) -> bytes:
        """The key of the block in front of block `position`; of the first: the namespace's root."""
        while len(self._chain) <= position:
            start = (len(self._chain) - 1) * self.block_size
            block = self.tokens[start : start + self.block_size]
            self._chain.append(hash_block(self._chain[-1], token_bytes(block)))
        return self._chain[position]

    def key(self, position: int) -> bytes:
        return self.parent(position + 1)

    def partial(self, position: int, tokens: Tokens) -> bytes:
        """The key of a last block that holds these tokens only."""
        return hash_block(self.parent(position), token_bytes(tokens))

    def extend(self, tokens: Tokens) -> None:
        """`tokens` begins with the tokens so far; where it is longer, go on with it."""
        if len(tokens) > len(self.tokens):
            del self._chain[self.num_full_blocks + 1 :]
            self.tokens = tokens

    def span(self, start: int, stop: int) -> list[bytes]:
        """Keys of the blocks [start, stop)."""
        self.parent(stop)
        return self._chain[start + 1 : stop + 1]
