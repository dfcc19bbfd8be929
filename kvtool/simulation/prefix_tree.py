"""The shared prefixes of a trace that matter most, as a tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints
from kvtool.simulation.workload import Workload
from kvtool.traces.prepared import PreparedRequest
from kvtool.traces.trace_request import BlockPrompt

MAX_NODES = 48
LABEL_SYMBOLS = 24
LABEL_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixNode:
    """A stretch of blocks that the same requests have. start: tokens in front of it. first: the
    access in which it was seen first. hit_tokens: what a cache that never evicts serves of it."""

    id: int
    parent: int | None
    start: int
    tokens: int
    requests: int
    hit_tokens: int
    first: int


def prefix_nodes(accesses: Accesses, limit: int = MAX_NODES) -> list[PrefixNode]:
    """Those with most hit tokens, and what is in front of them; parents before children."""
    first = np.flatnonzero(accesses.previous < 0)  # one access a block, by its first sight
    blocks = accesses.blocks[first]
    counts = np.bincount(accesses.blocks, minlength=len(first))[blocks]
    parents = np.where(accesses.depths[first] > 0, accesses.blocks[first - 1], -1)
    row_of = np.full(len(first), -1)
    row_of[blocks] = np.arange(len(first))
    parent_rows = np.where(parents >= 0, row_of[parents], -1)
    goes_on = (parent_rows >= 0) & (counts[parent_rows] == counts)
    node_of = _node_of(goes_on, parent_rows)
    shared = np.flatnonzero(~goes_on & (counts > 1))
    lengths = np.bincount(node_of, weights=accesses.tokens[first], minlength=len(first))
    tokens = lengths.astype(np.int64)
    saved = tokens * (counts - 1)
    best = shared[np.argsort(-saved[shared], kind="stable")[:limit]].tolist()
    chosen = _with_ancestors(best, parent_rows, node_of, limit)
    starts = _starts(chosen, parent_rows, node_of, tokens)
    return [
        PrefixNode(
            id=row,
            parent=int(node_of[parent_rows[row]]) if parent_rows[row] >= 0 else None,
            start=starts[row],
            tokens=int(tokens[row]),
            requests=int(counts[row]),
            hit_tokens=int(saved[row]),
            first=int(first[row]),
        )
        for row in chosen
    ]


def prefix_tree(nodes: Iterable[PrefixNode], accesses: Accesses, workload: Workload) -> list[Any]:
    """With the text that each begins with, or its first hash id; reads the workload once."""
    nodes = list(nodes)
    wanted: dict[int, list[PrefixNode]] = {}
    for node in nodes:
        wanted.setdefault(int(accesses.requests[node.first]), []).append(node)
    labels: dict[int, str] = {}
    for position, prepared in enumerate(workload):
        for node in wanted.pop(position, ()):
            block = int(accesses.depths[node.first])
            labels[node.id] = _label(prepared, block, workload)
        if not wanted:
            break
    return [
        {
            "id": node.id,
            "parent": node.parent,
            "depth_tokens": node.start,
            "tokens": node.tokens,
            "requests": node.requests,
            "hit_tokens": node.hit_tokens,
            "label": labels[node.id],
        }
        for node in nodes
    ]


def _node_of(goes_on: np.ndarray[Any, np.dtype[np.bool_]], parent_rows: Ints) -> Ints:
    """[n]: the row that each row's stretch begins at; a parent is seen before its children."""
    node_of = np.arange(len(parent_rows))
    for row in np.flatnonzero(goes_on).tolist():
        node_of[row] = node_of[parent_rows[row]]
    return node_of


def _with_ancestors(best: list[int], parent_rows: Ints, node_of: Ints, limit: int) -> list[int]:
    chosen: set[int] = set()
    for row in best:
        line = [row]
        while (parent := int(parent_rows[line[-1]])) >= 0 and int(node_of[parent]) not in chosen:
            line.append(int(node_of[parent]))
        if len(chosen) + len(line) <= limit:
            chosen.update(line)
    return sorted(chosen)


def _starts(chosen: list[int], parent_rows: Ints, node_of: Ints, tokens: Ints) -> dict[int, int]:
    starts: dict[int, int] = {}
    for row in chosen:
        parent = int(parent_rows[row])
        before = int(node_of[parent]) if parent >= 0 else None
        starts[row] = 0 if before is None else starts[before] + int(tokens[before])
    return starts


def _label(prepared: PreparedRequest, block: int, workload: Workload) -> str:
    prompt = prepared.request.prompt
    if isinstance(prompt, BlockPrompt):
        return f"id {prompt.hash_ids[block]}"
    start = block * workload.unit.block_size
    text = workload.decode(prepared.symbols[start : start + LABEL_SYMBOLS]) or ""
    return " ".join(text.split())[:LABEL_CHARACTERS]
