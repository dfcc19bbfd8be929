"""Rows of cases on disk: one line a case and session, so that a run can go on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks import rows

CASES = "reuse_quality_cases"
ArmRow = dict[str, Any]


class Setup(NamedTuple):
    """Rows of one setup belong together. prompts: digest of the committed texts."""

    model: str
    weights: str
    dtype: str
    prompts: str


class Measured(NamedTuple):
    prompt: str
    situation: str
    arms: dict[str, ArmRow]


def load(setup: Setup) -> list[Measured]:
    """Lines of one case are joined; a later one wins. time: of an arm's passes, over that of the
    full recompute of the same line."""
    found: dict[tuple[str, str], Measured] = {}
    path = rows.RESULTS / f"{CASES}.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        if all(row[name] == value for name, value in setup._asdict().items()):
            key = row["prompt"], row["situation"]
            arms = found.setdefault(key, Measured(*key, {})).arms
            for name, arm in row["arms"].items():
                arms[name] = {**arm, "time": arm.get("ms", 0) / row["full_ms"]}
    return list(found.values())


def missing(
    measured: Sequence[Measured], prompt: str, situation: str, arms: Sequence[str]
) -> list[str]:
    """Of these arms, those the case has no result for."""
    done = {name for m in measured if (m.prompt, m.situation) == (prompt, situation)
            for name in m.arms}  # fmt: skip
    return [name for name in arms if name not in done]


def save(setup: Setup, row: dict[str, Any]) -> None:
    rows.append(CASES, {**setup._asdict(), **row})
