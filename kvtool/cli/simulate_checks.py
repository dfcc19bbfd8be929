"""Options of `simulate-agent` that cannot mean anything together, told before any work."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.cli.event_target import check_event_file
from kvtool.cli.prompt import check_stdin_once
from kvtool.cli.simulate_engine import DEFAULTS
from kvtool.cli.simulate_files import check_files, check_not_traces, out_files
from kvtool.cli.simulate_options import SimulateRequest
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.traces.open_trace import Trace

# Options of a model that runs; accounting computes nothing, on no device, and keeps no KV.
_OF_A_MODEL = (
    *("device", "dtype", "threads", "max_model_len", "deterministic", "seed", "reuse_scheme"),
    *("ungated", "cache_dir", "cache_size", "durable", "remote", "host_memory", "salt", "events"),
)
_OF_THE_CLOCK = ("prefill_rate", "decode_rate")


def check_options(traces: Sequence[str], request: SimulateRequest, engine: EngineConfig) -> None:
    """Raises `ConfigError`."""
    if not traces:
        raise ConfigError(
            "There is no TRACE.", hint="kvtool simulate-agent examples/traces/append.jsonl"
        )
    check_stdin_once(traces)
    if engine.model is None:
        _check_accounting(request, engine)
    else:
        _check_model(request)
    if request.apply is not None and not request.advice:
        raise ConfigError("--apply writes what advice changes; drop --no-advice or --apply.")
    if request.report is not None:
        from kvtool.report.extra import check_report_extra

        check_report_extra()
    check_event_file(engine, traces)
    check_files(out_files(request), traces, engine)


def check_trace(trace: Trace, request: SimulateRequest, engine: EngineConfig) -> None:
    """What a trace without text cannot have, and one with text does not need; what would replace a
    file of a folder."""
    check_not_traces(out_files(request), [file.path for file in trace.files])
    exports = {export.format for export in request.export or ()}
    if "weka" in exports and not trace.timed:
        raise ConfigError(
            "--export weka is not for this trace: not every request has a time of arrival.",
            hint="Use --export mooncake:OUT, where times may be missing.",
        )
    if trace.kind == "text":
        if request.trace_block_size is not None:
            raise ConfigError(
                "--trace-block-size is for hash ids; this trace has text, which --block-size cuts."
            )
        return
    what = "hash ids" if trace.kind == "blocks" else "lengths"
    reasons = {
        "--model": (engine.model is not None, "a model computes text"),
        "--tokenizer": (request.tokenizer is not None, "there is nothing to tokenise"),
        "--reuse": (engine.reuse == "shift", "shift moves text"),
        "--block-size": (
            engine.block_size != DEFAULTS["block_size"],
            "it is replayed in its own blocks (--trace-block-size)",
        ),
        "--apply": (request.apply is not None, "advice rewrites text"),
        "--export openai": ("openai" in exports, "there are no messages to write"),
        "--export": (bool(exports) and trace.kind == "lengths", "there is no content to write"),
        "--explain": (
            request.explain is not None and trace.kind == "lengths",
            "what requests share is unknown",
        ),
    }
    for option, (is_given, reason) in reasons.items():
        if is_given:
            raise ConfigError(f"{option} is not for a trace of {what}: {reason}.")


def _check_accounting(request: SimulateRequest, engine: EngineConfig) -> None:
    given = {_option(name) for name in _OF_A_MODEL if getattr(engine, name) != DEFAULTS[name]}
    given |= {
        f"--{name}"
        for name, is_given in (
            ("calibrate", request.calibrate),
            ("verify", request.verify),
            ("replies generate", request.replies != "recorded"),
            ("revision", engine.revision is not None and request.tokenizer is None),
        )
        if is_given
    }
    if given:
        raise ConfigError(
            f"{', '.join(sorted(given))}: nothing is computed without --model, so there it would "
            "do nothing.",
            hint="Add --model MODEL (demo is the built-in one), or drop it.",
        )


def _check_model(request: SimulateRequest) -> None:
    if request.tokenizer is not None:
        raise ConfigError("--model brings its tokenizer; drop --tokenizer.")
    given = [_option(name) for name in _OF_THE_CLOCK if getattr(request, name) is not None]
    if given:
        raise ConfigError(
            f"{' and '.join(given)} set the virtual clock; with --model times are measured.",
            hint="Drop --model, or with --calibrate the rates.",
        )
    if request.calibrate:
        unused = [
            name
            for name, is_given in (
                ("--verify", request.verify),
                ("--replies generate", request.replies != "recorded"),
            )
            if is_given
        ]
        if unused:
            raise ConfigError(f"With --calibrate no request runs on the model; drop {unused[0]}.")
    elif request.output_kv is False:
        raise ConfigError(
            "--no-output-kv is for accounting: a model that runs caches its replies in any case.",
            hint="Drop --no-output-kv, or --model (--tokenizer takes the same name).",
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
