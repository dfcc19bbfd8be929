"""The radix tree of stored blocks: what sequences share is one node, drawn once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvtool.cache.block_hash import root_hash
from kvtool.cache.block_pool import Tokens
from kvtool.inspection.first_difference import Decode
from kvtool.inspection.namespaces import StoredNamespace, stored_namespaces
from kvtool.tiers.disk.entry import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """Blocks that follow each other without a branch, and what hangs below them.

    index, parent: places in the list of nodes, the parent's first; None at the top. start: position
    of the first token. tail_tokens: tokens of the last block where it is partly filled, else 0.
    runs: how many files the blocks lie in; keys: their names. hits: of the run used most often.
    headless: what stands in front is not stored, so nothing finds these blocks.
    """

    index: int
    parent: int | None
    depth: int
    namespace: int
    start: int
    tokens: int
    blocks: int
    tail_tokens: int
    bytes: int
    hits: int
    runs: int
    keys: tuple[str, ...]
    pinned: bool
    headless: bool
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """nodes: depth first, branches of a node in the order of their positions and sizes."""

    namespaces: tuple[dict[str, object], ...]
    nodes: tuple[TreeNode, ...]


class _Block(NamedTuple):
    key: bytes
    parent: bytes
    entry: Entry
    number: int  # in its entry

    @property
    def start(self) -> int:
        return self.entry.home + self.number * self.entry.block_size

    @property
    def tokens(self) -> Tokens:
        size = self.entry.block_size
        return self.entry.tokens[self.number * size : (self.number + 1) * size]

    @property
    def bytes(self) -> int:
        """Its share of the file; the shares of all blocks add up to the file."""
        whole, count = self.entry.num_bytes, self.entry.num_blocks
        return (self.number + 1) * whole // count - self.number * whole // count


Children = dict[bytes, list[_Block]]


def radix_tree(entries: Sequence[Entry], decoders: dict[str, Decode]) -> Tree:
    """decoders: by digest of the tokenizer, for the text of nodes; without one there is none."""
    namespaces = stored_namespaces(entries)
    nodes: list[TreeNode] = []
    for namespace in namespaces:
        own = [entry for entry in entries if entry.namespace == namespace.digest]
        decode = decoders.get(str(namespace.fields.get("tokenizer")))
        nodes += _grow(namespace, own, decode, first_index=len(nodes))
    return Tree(namespaces=tuple(n.as_dict() for n in namespaces), nodes=tuple(nodes))


def _grow(
    namespace: StoredNamespace, entries: list[Entry], decode: Decode | None, *, first_index: int
) -> Iterator[TreeNode]:
    children = _children(entries)
    stored = {block.key for siblings in children.values() for block in siblings}
    root = root_hash(namespace.digest)
    headless = [parent for parent in children if parent != root and parent not in stored]
    waiting: list[tuple[_Block, int | None, int, bool]] = []
    for parent in (*headless, root):
        waiting += [(b, None, 0, parent != root) for b in reversed(children.get(parent, ()))]
    index = first_index
    while waiting:
        block, above, depth, is_headless = waiting.pop()
        chain = _unbranched(block, children)
        yield TreeNode(
            index=index,
            parent=above,
            depth=depth,
            namespace=namespace.number,
            headless=is_headless,
            text=None if decode is None else decode([int(t) for b in chain for t in b.tokens]),
            **_measures(chain, namespace.block_size),
        )
        below = reversed(children.get(chain[-1].key, ()))
        waiting += [(child, index, depth + 1, False) for child in below]
        index += 1


def _children(entries: Iterable[Entry]) -> Children:
    """Blocks by their parent's key, each once: two processes may have stored the same."""
    children: Children = defaultdict(list)
    seen: set[bytes] = set()
    for entry in sorted(entries, key=lambda entry: (entry.home, -entry.num_tokens, entry.key)):
        for number, key in enumerate(entry.keys):
            if key not in seen:
                seen.add(key)
                parent = entry.keys[number - 1] if number else entry.parent
                children[parent].append(_Block(key, parent, entry, number))
    return children


def _unbranched(block: _Block, children: Children) -> list[_Block]:
    chain = [block]
    while len(children.get(chain[-1].key, ())) == 1:
        chain.append(children[chain[-1].key][0])
    return chain


def _measures(chain: list[_Block], block_size: int) -> dict[str, Any]:
    entries = {block.entry.key: block.entry for block in chain}
    tokens = sum(len(block.tokens) for block in chain)
    return {
        "start": chain[0].start,
        "tokens": tokens,
        "blocks": len(chain),
        "tail_tokens": tokens % block_size,
        "bytes": sum(block.bytes for block in chain),
        "hits": max(entry.hits for entry in entries.values()),
        "runs": len(entries),
        "keys": tuple(entries),
        "pinned": any(entry.pinned for entry in entries.values()),
    }
