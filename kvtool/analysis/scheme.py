"""What a reuse scheme finds in a tree of earlier prompts: an exact prefix, and text that moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvtool.analysis.prompt_tree import Prefix, PromptTree
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.refusals import Limits
from kvtool.reuse.run import Run
from kvtool.reuse.runs import find_runs

# (tree, prompt, prefix found there, namespace, limits) -> runs behind the prefix, which may
# overlap; the prompt's last token is in none, because it is computed whatever is found.
FindRuns = Callable[[PromptTree, Tokens, Prefix, bytes, Limits], list[Run]]


class Scheme(NamedTuple):
    """hit: leading tokens that are reused exactly. runs: None where nothing moves."""

    name: str
    hit: Callable[[Prefix], int]
    runs: FindRuns | None
    definition: str


def any_offset(
    tree: PromptTree, tokens: Tokens, prefix: Prefix, namespace: bytes, limits: Limits
) -> list[Run]:
    """The engine's search: text around a whole block of an earlier prompt, at any offset."""
    first = min(prefix.num_tokens, len(tokens) - 1)
    return find_runs(tokens[:-1], first, tree, namespace, limits=limits).runs


def fixed_grid(
    tree: PromptTree, tokens: Tokens, prefix: Prefix, namespace: bytes, limits: Limits
) -> list[Run]:
    """Whole blocks at multiples of the block size, here and in the earlier prompt."""
    size, end = tree.block_size, (len(tokens) - 1) // tree.block_size
    blocks = tokens[: end * size].reshape(-1, size)
    followed: set[tuple[int, int]] = set()
    runs = []
    for place in range(prefix.num_full // size, end):
        newest = int(tree.newest(blocks[place], namespace)[0])
        for donor in tree.copies(newest) if newest >= 0 else []:
            if (donor, place) in followed or (tree.tokens([donor])[0] != blocks[place]).any():
                continue
            chain = [donor, *_behind(tree, donor, blocks[place + 1 :])]
            followed.update((block, place + i) for i, block in enumerate(chain))
            start = place * size
            run = Run(start, start + len(chain) * size, start - tree.home(donor), tuple(chain), 0)
            if run.num_tokens >= limits.min_run:
                runs.append(run)
    return runs


def _behind(tree: PromptTree, block: int, wanted: Tokens) -> Iterator[int]:
    """Blocks behind it in a chain, while they hold the next wanted ones. int32 [m, size]."""
    for tokens in wanted:
        block, length = tree.longest_child(block, tokens)
        if length < tree.block_size:
            return
        yield block


def _whole_blocks(prefix: Prefix) -> int:
    return prefix.num_full


def _all_tokens(prefix: Prefix) -> int:
    return prefix.num_tokens


CHAIN = Scheme("chain", _whole_blocks, None, "leading whole blocks")
RADIX = Scheme("radix", _all_tokens, None, "leading tokens")
SHIFT_GRID = Scheme(
    "shift-grid",
    _whole_blocks,
    fixed_grid,
    "leading whole blocks, and whole blocks that stand elsewhere on the block grid",
)
SHIFT_ANY = Scheme(
    "shift-any",
    _all_tokens,
    any_offset,
    "leading tokens, and text around a whole block that stands at any offset",
)

SCHEMES = {
    "chain": "kvtool.analysis.scheme:CHAIN",
    "radix": "kvtool.analysis.scheme:RADIX",
    "shift-grid": "kvtool.analysis.scheme:SHIFT_GRID",
    "shift-any": "kvtool.analysis.scheme:SHIFT_ANY",
}
