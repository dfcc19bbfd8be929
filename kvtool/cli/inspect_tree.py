"""The radix tree for people: one line a node, large trees cut with a count of what is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, namespace_line, short_key, shortened
from kvtool.cli.output import write, write_json
from kvtool.cli.printable import printable
from kvtool.cli.sizes import format_size
from kvtool.config import EngineConfig
from kvtool.inspection.tree import Tree, TreeNode, radix_tree
from kvtool.tiers.disk.catalog import Catalog

SHOWN_BRANCHES = 12  # of a node
SHOWN_NODES = 400
TEXT_WIDTH = 60


def show_tree(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """The radix tree of each namespace."""
    entries = catalog.entries()
    decoders = {}
    if request.show_text:
        from kvtool.cli.inspect_model import decoder_for

        decoders = decoder_for(engine, entries)
    tree = radix_tree(entries, decoders)
    if request.format == "json":
        write_json(tree)
        return
    write("".join(f"{line}\n" for line in tree_lines(tree)) or "Nothing is stored.\n")


def tree_lines(tree: Tree) -> Iterator[str]:
    below: dict[tuple[object, int | None], list[TreeNode]] = defaultdict(list)
    for node in tree.nodes:
        below[node.namespace, node.parent].append(node)
    sizes = _subtree_tokens(tree.nodes)
    room = SHOWN_NODES
    for namespace in tree.namespaces:
        yield namespace_line(namespace)
        waiting = _branches(below[namespace["number"], None], "", sizes)
        while waiting:
            line = waiting.pop(0)
            yield line.text
            room -= 1
            if line.node is not None:
                branches = below[line.node.namespace, line.node.index]
                waiting[:0] = _branches(branches, line.indent, sizes)
            if room == 0 and waiting:
                left = sum(sizes[w.node.index][0] for w in waiting if w.node)
                yield f"… and {count(left, 'more node')}"
                return


class _Line(NamedTuple):
    text: str
    indent: str  # of what hangs below
    node: TreeNode | None


def _branches(
    nodes: Sequence[TreeNode], indent: str, sizes: Sequence[tuple[int, int]]
) -> list[_Line]:
    shown, hidden = nodes[:SHOWN_BRANCHES], nodes[SHOWN_BRANCHES:]
    lines = []
    for node in shown:
        is_last = node is nodes[-1]
        stem, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        lines.append(_Line(f"{indent}{stem}{node_line(node)}", indent + below, node))
    if hidden:
        tokens = count(sum(sizes[node.index][1] for node in hidden), "token")
        what = count(len(hidden), "more branch").replace("branchs", "branches")
        lines.append(_Line(f"{indent}└─ … and {what} ({tokens})", indent, None))
    return lines


def node_line(node: TreeNode) -> str:
    parts = [count(node.tokens, "token"), count(node.blocks, "block"), format_size(node.bytes)]
    if node.runs > 1:
        parts.append(count(node.runs, "run"))
    parts.append(count(node.hits, "hit"))
    if node.tail_tokens:
        parts.append(f"last block holds {node.tail_tokens}")
    if node.pinned:
        parts.append("pinned")
    if node.headless:
        parts.append("what stands in front is not stored")
    line = f"[{node.start}, {node.start + node.tokens})  {short_key(node.keys[-1])}  "
    text = "" if node.text is None else f'  "{shortened(printable(node.text), TEXT_WIDTH)}"'
    return line + ", ".join(parts) + text


def _subtree_tokens(nodes: Sequence[TreeNode]) -> list[tuple[int, int]]:
    """Of each node: how many nodes and tokens it and all below it are."""
    sums = [(1, node.tokens) for node in nodes]
    for node in reversed(nodes):
        if node.parent is not None:
            above, own = sums[node.parent], sums[node.index]
            sums[node.parent] = (above[0] + own[0], above[1] + own[1])
    return sums
