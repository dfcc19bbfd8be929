"""What the summary of a simulation says beside its figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import Run

from kvtool.cli.simulate_options import REQUEST
from kvtool.replay.calibrate import LONG_PROMPT, REPLY, ROUNDS

AGENTS = Path(__file__).parent.parent.parent / "examples" / "traces" / "agents.jsonl"


def section(text: str, title: str) -> str:
    """In one line, without what is folded."""
    (found,) = [part for part in text.split("\n\n") if part.startswith(title)]
    return " ".join(found.split())


def log(path: Path, *cached: int, prompt_tokens: int = 100) -> Path:
    """The same words every 10 s; what of them was cached."""
    rows = []
    for n, tokens in enumerate(cached):
        usage = {"prompt_tokens": prompt_tokens, "prompt_tokens_details": {"cached_tokens": tokens}}
        body = [{"role": "user", "content": "the same long words again " * 20}]
        rows.append({"timestamp": 10 * n, "messages": body, "response": {"usage": usage}})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("reuse", ["none", "prefix"])
def test_text_seen_elsewhere_is_no_promise(kvtool: Run, reuse: str) -> None:
    text = kvtool("simulate-agent", AGENTS, "--reuse", reuse, "--no-advice").out
    missed = section(text, "Why ")
    assert ("at another position, as if nothing were evicted" in missed) == (reuse == "prefix")
    assert not re.search("would take|stood in the cache", missed)


def test_moved_text_says_what_it_does_to_exact_hits(kvtool: Run) -> None:
    result = kvtool("simulate-agent", AGENTS, "--format", "json").json
    (shift,) = [one for one in result["advice"] if one["id"] == "shifted-reuse"]
    told = section(kvtool("simulate-agent", AGENTS).out, "Advice")
    exact, moved = (
        f"{shift['before'][key]:,} → {shift['after'][key]:,}"
        for key in ("hit_tokens", "shifted_tokens")
    )
    assert f"exact hits {exact} tokens; moved text, which is approximate, {moved}" in told
    assert told.count("exact hits") == 1, "of the advice that moves text alone"


def test_schemes_move_tokens(kvtool: Run) -> None:
    schemes = section(kvtool("simulate-agent", AGENTS, "--no-advice").out, "Reuse schemes")
    assert "tokens moved" in schemes and "turned" not in schemes


def test_who_else_has_the_formula(kvtool: Run) -> None:
    rates = section(kvtool("simulate-agent", AGENTS, "--no-advice").out, "Hit rates")
    assert "by whole blocks" in rates
    assert "tokens of hit blocks / prompt tokens, from an empty cache on [same formula: " in rates


def test_advice_that_was_not_replayed_is_not_answered(kvtool: Run, tmp_path: Path) -> None:
    def row(n: int, *ids: int) -> dict[str, Any]:
        return {"timestamp": n, "input_length": 512, "output_length": 1, "hash_ids": ids}

    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row(n, n % 3)) + "\n" for n in range(9)))
    text = kvtool("simulate-agent", path, "--capacity", "2", "--trace-block-size", "512").out
    assert "Give the cache 3 blocks" in section(text, "Advice")
    assert "  0 tokens" not in text and "Rewriting" not in text
    assert "rewriting_advice: not measurable on this trace" in section(text, "Not answered")


def test_equal_fits_and_what_is_not_listed(kvtool: Run, tmp_path: Path) -> None:
    text = kvtool("simulate-agent", log(tmp_path / "log.jsonl", *[50] * 9), "--no-advice").out
    found = section(text, "Against the log")
    assert found.count("fits equally well") == 4 and "fits best" not in found
    assert "and 4 more" in found


@pytest.mark.parametrize(("cached", "told"), [(0, "less"), (990, "more")])
def test_text_that_the_log_leaves_out(kvtool: Run, tmp_path: Path, cached: int, told: str) -> None:
    path = log(tmp_path / "log.jsonl", *[cached] * 3, prompt_tokens=1000)
    found = section(kvtool("simulate-agent", path, "--no-advice").out, "Against the log")
    assert f"{told} was cached than the replay finds" in found


def test_calibrate_says_what_it_computes() -> None:
    (option,) = [p for p in REQUEST.parameters if p.name == "calibrate"]
    help_text = option.annotation.__metadata__[0].help
    short = LONG_PROMPT // 4
    tokens = short + 2 + ROUNDS * (short + REPLY + LONG_PROMPT + 1)
    assert f"about {round(tokens, -2):,} tokens" in help_text
