"""`kvtool generate --batch` on a tiny model."""

from __future__ import annotations

import json
import re
from typing import Any

import model_files
import pytest
from command_line import Run

COMPLETE = ["line", "custom_id", "text", "token_ids", "finish_reason", "usage", "timing"]


def jsonl(*requests: Any) -> bytes:
    return "\n".join(json.dumps(request) for request in requests).encode()


def test_one_line_each_in_input_order(generate: Run) -> None:
    requests = [
        {"custom_id": f"r{i}", "prompt": "hello " * (6 - i), "max_tokens": 9 - i} for i in range(6)
    ]
    result = generate("--batch", "-", "--ignore-eos", stdin=jsonl(*requests))
    assert (result.code, result.err) == (0, "")
    assert [line["custom_id"] for line in result.lines] == [r["custom_id"] for r in requests]
    assert [len(line["token_ids"]) for line in result.lines] == [9, 8, 7, 6, 5, 4]
    assert all(list(line) == COMPLETE for line in result.lines)


@pytest.mark.report("S80")
def test_together_as_alone(generate: Run) -> None:
    prompts = ["a", "hello there, quick brown fox", "hello there, quick dog", "é🦙"]
    options = ("--max-tokens", "8")
    together = generate("--batch", "-", *options, stdin=jsonl(*({"prompt": p} for p in prompts)))
    for line, prompt in zip(together.lines, prompts, strict=True):
        alone = generate(prompt, *options, "--format", "json").json
        assert line["token_ids"] == alone["token_ids"]
        assert line["text"] == alone["text"]


@pytest.mark.report("S32")
def test_equal_prompts_compute_their_prefix_once(generate: Run) -> None:
    same = {"prompt": "hello " * 20, "max_tokens": 2, "custom_id": "same"}
    first, second = generate("--batch", "-", stdin=jsonl(same, same)).lines
    assert first["usage"]["cached_tokens"] == 0
    assert second["usage"]["cached_tokens"] >= 16
    assert first["token_ids"] == second["token_ids"]


@pytest.mark.report("S65")
def test_salts_do_not_share(generate: Run) -> None:
    def request(salt: str | None) -> Any:
        return {"prompt": "hello " * 20, "max_tokens": 1, "salt": salt}

    lines = generate(
        "--batch", "-", "--max-num-seqs", "1", stdin=jsonl(request("a"), request("b"), request("a"))
    ).lines
    cached = [line["usage"]["cached_tokens"] for line in lines]
    assert cached[:2] == [0, 0] and cached[2] > 0


def test_lines_own_fields_stand_before_the_options(generate: Run) -> None:
    lines = generate(
        *("--batch", "-", "--max-tokens", "3", "--ignore-eos", "--raw"),
        stdin=jsonl(
            {"prompt": "hi", "max_tokens": 2},
            {"prompt": "hi"},
            {"prompt": "hi", "raw": False},
            {"prompt": [65, 66]},
            {"prompt": "hi", "logprobs": 1},
            {"prompt": "hi", "logit_bias": {"77": 100}},
        ),
    ).lines
    assert [len(line["token_ids"]) for line in lines] == [2, 3, 3, 3, 3, 3]
    assert lines[2]["usage"]["prompt_tokens"] > lines[1]["usage"]["prompt_tokens"]
    assert lines[3]["usage"]["prompt_tokens"] == 2
    assert len(lines[4]["logprobs"][0]["top"]) == 1
    assert lines[5]["token_ids"] == [77, 77, 77]


def test_equal_prompts_are_sampled_differently(generate: Run) -> None:
    same = {"prompt": "hi", "max_tokens": 12, "temperature": 2, "ignore_eos": True}
    lines = generate(
        "--batch", "-", "--seed", "5", stdin=jsonl(same, same, {**same, "seed": 5})
    ).lines
    assert lines[0]["token_ids"] != lines[1]["token_ids"]
    assert lines[0]["token_ids"] == lines[2]["token_ids"]


@pytest.mark.report("S30")
@pytest.mark.report("S63")
def test_a_bad_line_becomes_an_error_line(generate: Run) -> None:
    requests = [
        {"custom_id": "x", "prompt": "hi", "max_tokens": 2},
        {"custom_id": "x", "prompt": "hello " * 300},
        {"prompt": "hi", "max_tokens": 0},
        {"prompt": [1, 320]},
        {"prompt": [1, 2**62]},
        {"prompt": [-1]},
        {"prompt": "hi", "logit_bias": {"320": 1}},
        {"prompt": "hi", "adapter": "a"},
        {"prompt": "hi", "max_tokens": 2**40},
        {"custom_id": "y", "prompt": "hi", "max_tokens": 2},
    ]
    result = generate("--batch", "-", stdin=jsonl(*requests) + b"\n{broken\n")
    assert result.code == 5
    lines = result.lines
    assert [line["line"] for line in lines] == list(range(1, 12))
    assert [i for i, line in enumerate(lines) if "error" not in line] == [0, 9]
    assert lines[0]["custom_id"] == lines[1]["custom_id"] == "x"
    assert lines[0]["token_ids"] == lines[9]["token_ids"]
    assert "context holds 256" in lines[1]["error"]["message"]
    assert all(
        set(line["error"]) == {"type", "message", "hint", "exit_code"} for line in lines[1:9]
    )
    assert result.err.splitlines()[0] == "error: 9 of 11 requests failed (lines 2, 3, 4, 5, 6, …)."


def test_what_nobody_foresaw_stays_in_its_line(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvtool.cli import batch

    def render(tokenizer: Any, messages: Any, **options: Any) -> Any:
        if messages[0]["content"] == "bug":
            raise ZeroDivisionError("x / 0")
        return render_prompt(tokenizer, messages, **options)

    render_prompt = batch.render_prompt
    monkeypatch.setattr(batch, "render_prompt", render)
    requests = jsonl({"prompt": "bug", "custom_id": "\ud800"}, {"prompt": "hi", "max_tokens": 2})
    result = generate("--batch", "-", stdin=requests)
    first, second = result.lines
    assert result.code == 5 and "ZeroDivisionError" in first["error"]["message"]
    assert first["custom_id"] == "\ud800" and len(second["token_ids"]) == 2


def test_a_mistake_has_the_name_that_the_line_gave_it(generate: Run) -> None:
    requests = jsonl({"prompt": "hi", "max_tokens": 0}, {"prompt": "hi", "top_p": 2})
    lines = generate("--batch", "-", "--max-tokens", "300", stdin=requests).lines
    messages = [line["error"]["message"] for line in lines]
    assert messages[0].startswith("max_tokens is 0") and messages[1].startswith("top_p is 2")
    [line] = generate("--batch", "-", "--max-tokens", "300", stdin=jsonl({"prompt": "hi"})).lines
    assert line["error"]["message"].startswith("--max-tokens is 300")


def test_token_ids_are_bounded_by_the_model(kvtool: Run, tmp_path: Any) -> None:
    folder = model_files.save_folder(tmp_path, model_files.tiny_model(vocab_size=300))
    requests = [{"prompt": [299]}, {"prompt": [300]}, {"prompt": [1], "logit_bias": {"300": 1}}]
    options = ("--model", folder, "--dtype", "fp32", "--max-tokens", "2", "--batch", "-")
    result = kvtool("generate", *options, stdin=jsonl(*requests))
    assert [line.get("error", {}).get("message", "")[-9:] for line in result.lines] == [
        "",
        "0 to 299.",
        "0 to 299.",
    ]


def test_verify_and_stats(generate: Run) -> None:
    requests = jsonl(*({"prompt": "hello " * 8 + str(i)} for i in range(3)))
    result = generate("--batch", "-", "--max-tokens", "3", "--verify", "--stats", stdin=requests)
    assert result.code == 0
    assert all(line["verify"]["top1_agreement"] == 1.0 for line in result.lines)
    reused = [line["verify"]["reused_tokens"] for line in result.lines]
    assert reused == [line["usage"]["cached_tokens"] for line in result.lines]
    rows = dict(re.findall(r"^  (\S.*?)  +(.*)$", result.err, re.MULTILINE))
    assert rows["replies verified"] == "3"
    assert rows["with reused tokens"] == str(sum(tokens > 0 for tokens in reused)) != "0"
    assert "tolerance " in rows["worst max_abs_logit_diff"]
    assert sum(int(n) for n in re.findall(r"\d+", rows["verdicts"])) == 3
    assert {"hit rate", "mean time to first token", "mean time per token"} <= set(rows)
    assert rows["steps"].endswith("tokens and 3 requests in one step")


def test_the_verify_table_is_of_the_human_view(generate: Run) -> None:
    options = ("--batch", "-", "--max-tokens", "2", "--verify", "--format", "json")
    assert generate(*options, stdin=jsonl({"prompt": "a"})).err == ""


@pytest.mark.parametrize(
    "options",
    [
        ("--kv-blocks", "8"),
        ("--kv-blocks", "8", "--no-cache-dir"),
        ("--max-num-batched-tokens", "7", "--no-cache-dir"),
    ],
)
def test_pressure_changes_no_token(generate: Run, options: tuple[str, ...]) -> None:
    requests = jsonl(*({"prompt": "hello " * i, "max_tokens": 20} for i in range(1, 9)))
    free = generate("--batch", "-", "--ignore-eos", stdin=requests).lines
    tight = generate("--batch", "-", "--ignore-eos", *options, stdin=requests).lines
    assert [line["token_ids"] for line in tight] == [line["token_ids"] for line in free]


def test_logits_that_are_no_numbers_end_their_request_alone(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvtool.engine import model_executor
    from kvtool.errors import ModelError

    sample = model_executor.sample

    def broken(logits: Any, requests: Any) -> Any:
        tokens = sample(logits, requests)
        long = [request.num_prompt_tokens > 50 for request in requests]
        return [
            ModelError("NaN") if bad else token for bad, token in zip(long, tokens, strict=True)
        ]

    monkeypatch.setattr(model_executor, "sample", broken)
    requests = ({"prompt": "a"}, {"prompt": "hello " * 30}, {"prompt": "b"})
    result = generate("--batch", "-", "--max-tokens", "3", "--verify", stdin=jsonl(*requests))
    assert result.code == 5
    assert [line.get("error", {}).get("message") for line in result.lines] == [None, "NaN", None]
    assert "1 of 3 requests failed (lines 2)" in result.err
    alone = generate("hello " * 30, "--max-tokens", "3", "--format", "json")
    assert (alone.code, alone.json["error"]["message"]) == (3, "NaN")
