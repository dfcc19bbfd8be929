"""`kvtool generate` from the outside, on a tiny model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import model_files
import pytest
from command_line import Run

from kvtool.engine.verify import Verification

USAGE = (
    "prompt_tokens",
    "cached_tokens",
    "shifted_tokens",
    "recomputed_tokens",
    "computed_tokens",
    "completion_tokens",
)
CACHE = {
    *("block_size", "num_blocks", "free_blocks", "cached_blocks", "peak_blocks", "hit_rate"),
    *("fragmentation", "full_hit_recomputed", "stored_blocks", "evicted_blocks", "collisions"),
    *("duplicate_blocks", "copied_blocks", "taken_over_blocks", "preemptions", "steps"),
    *("max_batch_requests", "max_batch_tokens", "cached_by_tier", "tiers"),
    *("shifted_tokens", "recomputed_tokens", "refused_runs"),
}
EFFECTIVE = {
    *("model", "revision", "device", "dtype", "threads", "max_model_len", "max_num_seqs"),
    *("max_num_batched_tokens", "block_size", "kv_memory", "kv_blocks", "prefix_index", "reuse"),
    *("reuse_scheme", "donor", "repair", "min_run", "ungated"),
    *("evict", "salt", "deterministic", "seed", "events", "architecture"),
    *("cache_dir", "no_cache_dir", "cache_size", "durable", "remote", "host_memory"),
    *("rope_regime", "eos_ids", "kv_bytes_per_token", "min_reusable_tokens", "max_tokens"),
}


@pytest.mark.report("S82")
def test_json_document(generate: Run) -> None:
    result = generate("hello", "--max-tokens", "6", "--format", "json")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    document = result.json
    assert list(document) == [
        *("text", "token_ids", "finish_reason", "usage", "timing", "cache", "effective")
    ]
    usage = document["usage"]
    assert tuple(usage) == USAGE
    assert usage["prompt_tokens"] == sum(usage[name] for name in USAGE[1:5])
    assert usage["completion_tokens"] == len(document["token_ids"]) == 6
    assert document["finish_reason"] == "length"
    assert set(document["timing"]) == {"ttft_ms", "tpot_ms", "total_ms"}
    assert set(document["cache"]) == CACHE
    assert set(document["cache"]["hit_rate"]) == {"value", "numerator", "denominator", "definition"}
    assert set(document["effective"]) == EFFECTIVE


@pytest.mark.report("S12")
@pytest.mark.report("S17")
def test_effective_values_are_those_in_force(generate: Run) -> None:
    effective = generate(
        *(
            "hello",
            "--max-tokens",
            "1",
            "--format",
            "json",
            "--block-size",
            "8",
            "--salt",
            "secret",
        ),
        *("--kv-memory", "100KiB", "--max-model-len", "200", "--prefix-index", "chain"),
    ).json["effective"]
    assert effective["kv_blocks"] == 100 * 1024 // (8 * effective["kv_bytes_per_token"])
    assert effective["kv_memory"] <= 100 * 1024
    assert effective["max_model_len"] == 200
    assert (effective["device"], effective["dtype"]) == ("cpu", "float32")
    assert effective["min_reusable_tokens"] == 8
    assert effective["salt"] == "set"  # not the secret itself
    assert effective["eos_ids"] == [2]


@pytest.mark.report("S78")
def test_streamed_text_is_the_text_of_the_document(generate: Run) -> None:
    options = ("hello", "--max-tokens", "40", "--ignore-eos")
    text = generate(*options, "--format", "json").json["text"]
    shown = generate(*options)
    assert shown.out == (text if text.endswith("\n") else text + "\n")
    assert shown.err == ""


@pytest.mark.report("S77")
def test_stop_strings(generate: Run) -> None:
    options = ("hello", "--max-tokens", "40", "--ignore-eos")
    text = generate(*options, "--format", "json").json["text"]
    stop = text[10:14]
    stopped = generate(*options, "--stop", "never", "--stop", stop, "--format", "json").json
    assert stopped["finish_reason"] == "stop"
    assert stopped["text"] == text[: text.index(stop)]
    assert generate(*options, "--stop", stop).out.removesuffix("\n") == stopped["text"]


def test_one_token_has_no_time_per_token(generate: Run) -> None:
    timing = generate("hello", "--max-tokens", "1", "--format", "json").json["timing"]
    assert timing["tpot_ms"] is None and timing["ttft_ms"] > 0


def test_logprobs(generate: Run) -> None:
    options = ("hello", "--max-tokens", "3", "--logprobs", "2")
    document = generate(*options, "--format", "json").json
    assert [token["token_id"] for token in document["logprobs"]] == document["token_ids"]
    for token in document["logprobs"]:
        assert len(token["top"]) == 2
        assert token["top"][0]["token_id"] == token["token_id"]  # greedy
        assert token["top"][0]["logprob"] == token["logprob"] < 0
    assert generate(*options).err.count("likeliest:") == 3


@pytest.mark.report("S04")
@pytest.mark.parametrize("options", [(), ("--deterministic",), ("--prefix-index", "chain")])
def test_verify(generate: Run, options: tuple[str, ...]) -> None:
    result = generate("hello", "--max-tokens", "5", "--verify", "--format", "json", *options)
    assert result.code == 0
    assert result.json["verify"]["verdict"] in ("identical", "within tolerance")
    assert result.json["verify"]["top1_agreement"] == 1.0
    assert result.json["verify"]["reused_tokens"] == 0
    assert result.json["cache"]["hit_rate"]["denominator"] == result.json["usage"]["prompt_tokens"]


def test_verify_says_that_nothing_was_reused(generate: Run) -> None:
    options = ("hello", "--max-tokens", "2", "--verify")
    prompt_tokens = generate(*options, "--format", "json").json["usage"]["prompt_tokens"]
    said = generate(*options, "--no-cache-dir").err
    assert f"0 of {prompt_tokens} prompt tokens came from the cache: nothing was reused" in said
    assert re.search(r"tolerance  +[0-9.e-]{1,9}\n", said)


def test_a_difference_is_exit_code_6_behind_the_report(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Verification(
        max_abs_logit_diff=1.5,
        kl_mean=0.1,
        top1_agreement=0.5,
        tolerance=0.001,
        verdict="different",
    )
    monkeypatch.setattr("kvtool.cli.completion.verify", lambda *_: bad)
    result = generate("hello", "--max-tokens", "2", "--verify")
    assert result.code == 6
    assert result.out != ""
    assert "error: " in result.err and "differ by 1.5, allowed is 0.001" in result.err
    as_json = generate("hello", "--max-tokens", "2", "--verify", "--format", "json")
    assert as_json.code == 6
    assert as_json.json["verify"]["verdict"] == "different"  # one document, and it is the report


def test_stats_are_on_stderr(generate: Run) -> None:
    options = ("hello", "--max-tokens", "3", "--stats")
    result = generate(*options)
    assert result.out == generate(*options[:-1]).out
    for label in (
        "prompt tokens",
        "time to first token",
        "hit rate",
        "fragmentation",
        "preemptions",
        " B per token (float32)",
        "and 1 request in one step",
    ):
        assert label in result.err
    for hidden in ("mean ", "shifted", "recomputed", "counted before", "slots"):
        assert hidden not in result.err
    assert "\x1b" not in result.err
    assert generate(*options, "--format", "json").json["usage"]["prompt_tokens"] > 0


def test_events(generate: Run, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert generate("hello " * 5, "--max-tokens", "20", "--events", path).code == 0
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert events and {event["type"] for event in events} == {"BlockStored"}
    assert all(len(e["token_ids"]) == 16 * len(e["block_hashes"]) for e in events)
    refused = generate("hello", "--events", tmp_path / "no" / "file")
    assert refused.code == 2 and "Cannot write --events" in refused.err


def test_sampling_is_repeatable_by_seed(generate: Run) -> None:
    options = ("hello", "--max-tokens", "12", "--temperature", "2", "--ignore-eos", "--seed")
    assert generate(*options, "1").out == generate(*options, "1").out
    assert generate(*options, "1").out != generate(*options, "2").out


def test_logit_bias_forces_a_token(generate: Run) -> None:
    options = ("hello", "--max-tokens", "3", "--format", "json")
    document = generate(*options, "--logit-bias", "77=100").json
    assert document["token_ids"] == [77, 77, 77]
    refused = generate(*options, "--logit-bias", "320=1")
    assert refused.code == 2 and "token id 320; allowed: 0 to 3" in refused.err


@pytest.mark.report("S15")
def test_raw_and_chat_have_one_bos_each(generate: Run) -> None:
    chat = generate("hi", "--max-tokens", "1", "--format", "json").json["usage"]
    raw = generate("hi", "--raw", "--max-tokens", "1", "--format", "json").json["usage"]
    assert raw["prompt_tokens"] < chat["prompt_tokens"]


def test_prompt_from_stdin(generate: Run) -> None:
    options = ("--max-tokens", "3", "--format", "json")
    from_stdin = generate("-", *options, stdin=b"hello\n").json
    assert from_stdin["token_ids"] == generate("hello", *options).json["token_ids"]


def test_events_never_empty_what_is_read(
    generate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = tmp_path / "prompt.txt", tmp_path / "link"
    path.write_text("precious")
    link.symlink_to(path)
    for source in ("--file", "--messages", "--batch", "--model"):
        result = generate("hi", source, path, "--events", link)
        if source == "--batch":
            result = generate(source, path, "--events", link)
        assert result.code == 2 and "is read in this run" in result.err
    with path.open() as stdout:
        monkeypatch.setattr("kvtool.cli.event_target._STDOUT_FD", stdout.fileno())
        result = generate("hi", "--events", path)
    assert result.code == 2 and "where stdout goes" in result.err
    assert path.read_text() == "precious"


def test_the_default_reply_fits_the_context(generate: Run) -> None:
    """The tiny model's context is 256, as long as a reply by default."""
    document = generate("hello", "--format", "json", "--ignore-eos").json
    room = 256 - document["usage"]["prompt_tokens"]
    assert document["effective"]["max_tokens"] == len(document["token_ids"]) == room


def test_closed_stdin(kvtool: Run, generate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.cli import app

    monkeypatch.setattr("sys.stdin", None)
    for options in (("generate", "-"), ("generate", "--batch", "-"), ("generate", "-f", "-")):
        assert app.run(options) == 5
    assert app.run(["size-calc", "-"]) == 3


@pytest.mark.report("S75")
@pytest.mark.report("S81")
@pytest.mark.report("S62")
@pytest.mark.parametrize(
    ("args", "stdin", "code", "error"),
    [
        (("hi", "--model", "no/such-model-here"), b"", 3, "no/such-model-here"),
        (("hi", "--model", "./missing"), b"", 3, "'./missing'"),
        (("hello " * 200,), b"", 5, "the context holds 256"),
        (("hi", "--max-tokens", "250"), b"", 2, "--max-tokens is 250"),
        (
            ("hi", "--max-model-len", "257"),
            b"",
            2,
            "--max-model-len is 257; the model's limit is 256",
        ),
        (("hi", "--max-tokens", "60", "--kv-blocks", "2"), b"", 4, "are missing"),
        (("hi", "--kv-memory", "10B"), b"", 2, "--kv-memory is 10 B"),
        (("hi", "--kv-memory", "900TiB"), b"", 2, "bytes are free"),
        (("hi", "--kv-blocks", "999999999999"), b"", 2, "bytes are free"),
        (("hi", "--max-tokens", "999999999999"), b"", 2, "the context holds 256"),
        (("hi", "--deterministic", "--block-size", "24"), b"", 2, "--block-size is 24"),
        (("",), b"", 5, "PROMPT is empty"),
        (("-",), b"", 5, "stdin is empty"),
        (("-",), b"ab\xff", 5, "stdin is not UTF-8: byte 0xff at offset 2"),
        (("hi", "--file", "nowhere.txt"), b"", 5, "'nowhere.txt'"),
        (("--messages", "nowhere.json"), b"", 5, "'nowhere.json'"),
        (("--messages", "-"), b"[{]", 5, "stdin is not JSON"),
        (("--messages", "-"), b'{"a": 1}', 5, "must be a list of messages"),
        (("--batch", "nowhere.jsonl"), b"", 5, "'nowhere.jsonl'"),
        (("--batch", "-"), b"\n", 5, "holds no requests"),
    ],
)
def test_errors(generate: Run, args: tuple[str, ...], stdin: bytes, code: int, error: str) -> None:
    result = generate(*args, stdin=stdin)
    assert (result.code, result.out) == (code, "")
    first, *rest = result.err.splitlines()
    assert first.startswith("error: ") and error in first
    assert len(rest) <= 1 and "Traceback" not in result.err and "\x1b" not in result.err
    as_json = generate(*args, "--format", "json", stdin=stdin)
    assert as_json.code == as_json.json["error"]["exit_code"] == code


def test_damaged_models(kvtool: Run, tiny: Path, tmp_path: Path) -> None:
    folder = model_files.save_folder(tmp_path / "model")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for size in (0, 7, 300, len(whole) - 1):
        weights.write_bytes(whole[:size])
        result = kvtool("generate", "hi", "--model", folder)
        assert result.code == 3, result
        assert len(result.err.splitlines()) <= 2 and "Traceback" not in result.err
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF\x03\x00\x00\x00")
    result = kvtool("generate", "hi", "--model", gguf)
    assert result.code == 3 and "model.gguf" in result.err
    assert len(result.err.splitlines()) <= 2


def test_unsupported_architecture(kvtool: Run, tmp_path: Path) -> None:
    folder = model_files.save_folder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config.update(model_type="frobnicator", architectures=["FrobForCausalLM"])
    (folder / "config.json").write_text(json.dumps(config))
    result = kvtool("generate", "hi", "--model", folder)
    assert result.code == 3 and "frobnicator" in result.err
    assert len(result.err.splitlines()) <= 2


@pytest.mark.report("S79")
def test_no_chat_template(kvtool: Run, tmp_path: Path) -> None:
    plain = model_files.byte_level(chat_template=None)
    folder = model_files.save_folder(tmp_path / "model", tokenizer=plain)
    options = ("--model", folder, "--max-tokens", "2")
    assert kvtool("generate", "hi", *options).code == 0
    refused = kvtool("generate", "hi", "--system", "Be brief.", *options)
    assert refused.code == 2
    assert "no chat template" in refused.err and "--raw" in refused.err
    assert kvtool("generate", "hi", "--system", "Be brief.", "--raw", *options).code == 0


@pytest.mark.report("S64")
def test_a_template_that_refuses_a_role(kvtool: Run, tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{% if m['role'] == 'tool' %}"
        "{{ raise_exception('Only user and assistant roles are supported!') }}"
        "{% endif %}{{ m['content'] }}{% endfor %}"
    )
    strict = model_files.byte_level(template)
    folder = model_files.save_folder(tmp_path / "model", tokenizer=strict)
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]')
    result = kvtool("generate", "--messages", chat, "--model", folder)
    assert result.code == 5
    assert "message 1 (role 'tool')" in result.err and "Only user and assistant" in result.err
    assert len(result.err.splitlines()) == 2
