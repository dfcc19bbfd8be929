"""What `inspect-cache` draws: cut trees, ages, escapes; and how it asks."""

from __future__ import annotations

import io
import sys

import pytest

from kvtool.cli.inspect_consent import ask
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import age, namespace_line, shortened, table, to_text
from kvtool.cli.inspect_tree import SHOWN_BRANCHES, SHOWN_NODES, tree_lines
from kvtool.cli.printable import printable
from kvtool.errors import ConfigError
from kvtool.inspection.tree import Tree, TreeNode

NAMESPACE: dict[str, object] = {
    "number": 1,
    "weights": "3fa2b1c0" * 8,
    "architecture": "LlamaForCausalLM c0ffee",
    "compute_dtype": "bfloat16",
    "kv_dtype": "bfloat16",
    "block_size": 16,
}


def node(index: int, parent: int | None, depth: int) -> TreeNode:
    return TreeNode(
        index=index,
        parent=parent,
        depth=depth,
        namespace=1,
        start=16 * depth,
        tokens=16,
        blocks=1,
        tail_tokens=0,
        bytes=1024,
        hits=2,
        runs=1,
        keys=(f"{index:064x}",),
        pinned=False,
        headless=False,
    )


def lines(nodes: list[TreeNode]) -> list[str]:
    return list(tree_lines(Tree(namespaces=(NAMESPACE,), nodes=tuple(nodes))))


def test_a_narrow_terminal_cuts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(
        sys, "stdout", type("Terminal", (io.StringIO,), {"isatty": lambda _: True})()
    )
    names = [f"column {number}" for number in range(6)]
    drawn = table(dict.fromkeys(names, "left"), [["0123456789a"] * 6])
    heading, row = to_text(drawn).splitlines()
    assert "…" not in heading + row and row.count("0123456789a") == 6
    assert all(name in heading for name in names)


def test_a_small_tree() -> None:
    nodes = [node(0, None, 0), node(1, 0, 1), node(2, 1, 2), node(3, 0, 1)]
    what = "000000000000  16 tokens, 1 block, 1.0 KiB, 2 hits"
    assert lines(nodes) == [
        "1: LlamaForCausalLM 3fa2b1c03fa2, bf16, blocks of 16",
        f"└─ [0, 16)  {what}",
        f"   ├─ [16, 32)  {what}",
        f"   │  └─ [32, 48)  {what}",
        f"   └─ [16, 32)  {what}",
    ]


def test_many_branches_are_cut_and_counted() -> None:
    hidden = 7
    nodes = [node(0, None, 0), *(node(1 + i, 0, 1) for i in range(SHOWN_BRANCHES + hidden))]
    shown = lines(nodes)
    assert len(shown) == 2 + SHOWN_BRANCHES + 1
    assert shown[-1] == f"   └─ … and 7 more branches ({hidden * 16} tokens)"


def test_deep_trees_are_cut_and_counted() -> None:
    extra = 25
    shown = lines([node(i, i - 1 if i else None, i) for i in range(SHOWN_NODES + extra)])
    assert len(shown) == 1 + SHOWN_NODES + 1
    assert shown[-1] == f"… and {extra} more nodes"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "now"), (0.5, "now"), (59, "59 s ago"), (3599, "59 min ago"), (90000, "1 d ago")],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本", "plain é 日本"),
        ("a\x1b[31m\n\x07", "a\\x1b[31m\\n\\x07"),
        ("\u202e\x9b\x7f", "\\u202e\\x9b\\x7f"),
        ("\ud800", "\\ud800"),
    ],
)
def test_nothing_reaches_the_terminal_but_text(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_long_texts_keep_both_ends() -> None:
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abcde", 5) == "abcde"


def test_a_namespace_in_one_line() -> None:
    more = {"kv_dtype": "int8", "adapter": "ad" * 32, "salt": "set", "implementation": "torch"}
    assert namespace_line(NAMESPACE | more) == (
        "1: LlamaForCausalLM 3fa2b1c03fa2, bf16, KV int8, blocks of 16, adapter adadadadadad, "
        "salt set, deterministic"
    )
    assert namespace_line({"number": 3}) == "3: a model that nobody described"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(monkeypatch: pytest.MonkeyPatch, answer: str) -> str:
    """What is on the terminal after `answer`."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ask(InspectRequest(prune="all"), "remove 2 runs")
    return screen.getvalue()


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_a_yes(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    assert asked(monkeypatch, answer) == "This will remove 2 runs. Go on? [y/N] "


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yesterday\n"])
def test_anything_else_is_a_no(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    with pytest.raises(ConfigError, match="Not confirmed; nothing was changed"):
        asked(monkeypatch, answer)
