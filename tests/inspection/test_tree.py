"""The radix tree: shared prefixes once, branches, tails, and what has lost its head."""

from __future__ import annotations

from inspection.small_cache import NAMESPACE, decode, encode, other, put

from kvtool.inspection.tree import Tree, radix_tree
from kvtool.tiers.disk.catalog import Catalog

TOKENIZER = NAMESPACE.tokenizer


def tree_of(catalog: Catalog) -> Tree:
    return radix_tree(catalog.entries(), {TOKENIZER: decode})


def shown(tree: Tree) -> list[tuple[int | None, int, str | None]]:
    return [(node.parent, node.start, node.text) for node in tree.nodes]


def test_an_empty_cache(catalog: Catalog) -> None:
    assert tree_of(catalog) == Tree(namespaces=(), nodes=())


def test_a_shared_prefix_is_one_node(catalog: Catalog) -> None:
    put(catalog, encode("abcdefghijkl"))
    put(catalog, encode("abcdefghxyzw"))
    tree = tree_of(catalog)
    assert shown(tree) == [(None, 0, "abcdefgh"), (0, 8, "ijkl"), (0, 8, "xyzw")]
    assert [node.depth for node in tree.nodes] == [0, 1, 1]
    assert [node.blocks for node in tree.nodes] == [2, 1, 1]


def test_bytes_of_the_nodes_are_those_of_the_files(catalog: Catalog) -> None:
    runs = [put(catalog, encode(text)) for text in ("abcdefghij", "abcdefghxyzwv", "zz")]
    tree = tree_of(catalog)
    whole = sum(entry.num_bytes for entry in catalog.entries())
    assert sum(node.bytes for node in tree.nodes) == whole
    assert {key for node in tree.nodes for key in node.keys} == {run.key for run in runs}


def test_runs_that_continue_each_other_are_one_node(catalog: Catalog) -> None:
    first = put(catalog, encode("abcd"))
    second = put(catalog, encode("abcdefghi"), first_block=1)
    (node,) = tree_of(catalog).nodes
    assert (node.runs, node.keys) == (2, (first.key, second.key))
    assert (node.tokens, node.blocks, node.tail_tokens) == (9, 3, 1)


def test_a_tail_and_the_full_block_that_begins_like_it_are_branches(catalog: Catalog) -> None:
    put(catalog, encode("abcdef"))
    put(catalog, encode("abcdefgh"))
    tree = tree_of(catalog)
    assert sorted(text or "" for _, _, text in shown(tree)) == ["abcd", "ef", "efgh"]
    assert sorted(node.tail_tokens for node in tree.nodes) == [0, 0, 2]


def test_what_lost_its_head_is_marked(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"), first_block=1)
    put(catalog, encode("xyz"))
    marks = {node.text: node.headless for node in tree_of(catalog).nodes}
    assert marks == {"efgh": True, "xyz": False}


def test_a_tree_for_each_namespace_and_no_text_without_its_tokenizer(catalog: Catalog) -> None:
    put(catalog, encode("abcd"))
    put(catalog, encode("abcd"), other(tokenizer="00"))
    tree = tree_of(catalog)
    assert [space["number"] for space in tree.namespaces] == [1, 2]
    texts = {tree.namespaces[n.namespace - 1]["tokenizer"]: n.text for n in tree.nodes}
    assert texts == {TOKENIZER: "abcd", "00": None}
    assert {node.text for node in radix_tree(catalog.entries(), {}).nodes} == {None}


def test_deep_trees_need_no_recursion(catalog: Catalog) -> None:
    """A branch at each of many turns."""
    text = ""
    for turn in range(150):
        text += "abcd"
        put(catalog, encode(text), first_block=turn)
        put(catalog, encode(text + "zz"), first_block=turn + 1)
    tree = tree_of(catalog)
    assert max(node.depth for node in tree.nodes) == 149
    assert sum(node.tokens for node in tree.nodes) == 150 * 6
