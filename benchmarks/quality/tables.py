"""The tables of docs/reuse.md, from the committed summary rows.

`python -m benchmarks.quality.tables` prints them; a test holds the page to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks import rows
from benchmarks.quality.summary import EVERY_ARM, POOLED

SUMMARIES = "reuse_quality"
BY_SITUATION = ("none", "first:32", "auto", "attn:0.15", "vdev:0.15", "kdev:0.15",
                "recent/first:32", "similar@4/first:32", "consensus@4/first:32")  # fmt: skip


def newest(model: str) -> dict[str, Mapping[str, Any]]:
    """The last summary of each situation, and of all pooled; model: as its rows name it."""
    found = {}
    for line in (rows.RESULTS / f"{SUMMARIES}.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["model"] == model:
            found[row["situation"]] = row
    return found


def arms_table(summary: Mapping[str, Any]) -> str:
    """Those that have all of the summary's cases, by mean KL."""
    head = (
        "arm",
        "cases",
        "cost",
        "time",
        "mean KL",
        "95 %",
        "median KL",
        "top-1",
        "change of NLL",
    )
    most = max(arm["cases"] for arm in summary["arms"].values())
    arms = [(name, arm) for name, arm in summary["arms"].items() if arm["cases"] == most]
    arms.sort(key=lambda pair: pair[1]["mean_kl"])
    return _table(head, (_arm_row(name, arm) for name, arm in arms))


def _arm_row(name: str, arm: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = arm["interval"]
    time = f"{arm['time']:.2f}" if arm["time"] else ""
    return (
        *(f"`{name}`", str(arm["cases"]), f"{arm['cost']:.3f}", time, f"{arm['mean_kl']:.4f}"),
        *(f"{low:.4f} to {high:.4f}", f"{arm['median_kl']:.4f}"),
        *(f"{arm['top1']:.3f}", f"{arm['delta_nll']:+.3f}"),
    )


def ratios_table(summary: Mapping[str, Any]) -> str:
    head = ("mean KL of", "ratio", "95 %", "cases")
    lines = (
        (
            " / ".join(f"`{arm}`" for arm in name.split(" / ")),
            f"{ratio['ratio']:.2f}",
            f"{ratio['low']:.2f} to {ratio['high']:.2f}",
            str(ratio["num_cases"]),
        )
        for name, ratio in summary["ratios"].items()
    )
    return _table(head, lines)


def situations_table(summaries: Mapping[str, Mapping[str, Any]]) -> str:
    """Mean KL by situation."""
    situations = [name for name in summaries if name not in (POOLED, EVERY_ARM)]
    lines = (
        (f"`{arm}`", *(f"{summaries[name]['arms'][arm]['mean_kl']:.4f}" for name in situations))
        for arm in BY_SITUATION
    )
    return _table(("arm", *(f"`{name}`" for name in situations)), lines)


def _table(head: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    rule = ("---", *["--:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


def tables(model: str) -> list[str]:
    summaries = newest(model)
    pooled = summaries[POOLED]
    return [
        *(arms_table(pooled), ratios_table(pooled), situations_table(summaries)),
        arms_table(summaries[EVERY_ARM]),
    ]


def main() -> None:
    print("\n\n".join(tables("SmolLM2-135M-Instruct.Q4_1.gguf")))


if __name__ == "__main__":
    main()
