"""`--gate MODEL`: run the probe set, keep the record, show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from kvtool.cli.boundary import fail_after_report
from kvtool.cli.inspect_progress import counted_progress
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, table, to_text
from kvtool.cli.loading import open_runtime
from kvtool.cli.model_argument import model_option
from kvtool.cli.output import write, write_json
from kvtool.cli.printable import printable
from kvtool.config import EngineConfig
from kvtool.errors import VerificationError
from kvtool.gate.cases import make_cases
from kvtool.gate.measure import measure
from kvtool.gate.record import GateRecord
from kvtool.gate.records import make_folder, write_record
from kvtool.gate.score import Limits, Score, scores
from kvtool.gate.subject import subject_of
from kvtool.inspection.overview import iso_time
from kvtool.runtime import Runtime

_MOVING = ("reuse_scheme", "repair", "donor", "min_run")
_COLUMNS = {
    "situation": "left",
    "prompts": "right",
    "moved": "right",
    "computed again": "right",
    "mean KL": "right",
    "top-1": "right",
    "NLL change": "right",
}


def measure_gate(folder: Path, request: InspectRequest, engine: EngineConfig) -> None:
    """Ends with the code of `VerificationError` outside the limits, after the report."""
    config = _config(request, model_option("--gate", request.gate, engine))
    limits = _limits(request)
    make_folder(folder)
    with open_runtime(config) as runtime:
        record = _measure(runtime, config, limits)
    path = write_record(folder, record)
    if request.format == "json":
        write_json({**record.as_dict(), "file": str(path)})
    else:
        write(to_text(*gate_drawings(record), Text(f"kept in {printable(str(path))}")))
    if not record.passed:
        fail_after_report(
            VerificationError(
                f"The gate is not passed: {'; '.join(record.failures)}.",
                hint="Try another --repair, such as first:64 or attn:0.3.",
            )
        )


def _limits(request: InspectRequest) -> Limits:
    given = {"kl": request.gate_kl, "top1": request.gate_top1}
    return Limits(**{name: limit for name, limit in given.items() if limit is not None})


def _config(request: InspectRequest, engine: EngineConfig) -> EngineConfig:
    """An engine that moves text, keeps nothing, and asks for no record."""
    given = {name: getattr(request, name) for name in _MOVING}
    known = {name: value for name, value in given.items() if value is not None}
    return replace(engine, reuse="shift", ungated=True, no_cache_dir=True, **known)


def _measure(runtime: Runtime, config: EngineConfig, limits: Limits) -> GateRecord:
    tokenizer = runtime.tokenizer

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    cases = make_cases(encode, tokenizer.added_bos_id)
    with counted_progress("Measuring") as progress:
        results = measure(
            runtime.engine, cases, lambda number: runtime.namespace(f"gate {number}"), progress
        )
    return GateRecord(
        model=str(runtime.effective["model"]),
        created=iso_time(datetime.now(timezone.utc).timestamp()),
        device=str(runtime.effective["device"]),
        subject=subject_of(runtime.base_namespace, config),
        limits=limits,
        scores=tuple(scores(results)),
    )


def gate_drawings(record: GateRecord) -> Iterator[RenderableType]:
    subject, limits = record.subject, record.limits
    what = (
        f"{subject.compute_dtype}, scheme {subject.scheme}, repair {subject.repair}, "
        f"donor {subject.donor}"
    )
    yield Text(f"{printable(record.model)}, {what}, runs of {subject.min_run} tokens and more")
    yield table(_COLUMNS, (_row(score) for score in record.scores))
    unmoved = record.pooled.unmoved_cases
    if unmoved:
        yield Text(f"In {count(unmoved, 'prompt')} no text was moved; they do not count.")
    verdict = "passed" if record.passed else f"not passed: {'; '.join(record.failures)}"
    yield Text(f"{verdict} (limits: mean KL {limits.kl:g}, top-1 {limits.top1:g})", style="bold")


def _row(score: Score) -> tuple[str, ...]:
    return (
        score.situation,
        str(score.cases),
        f"{score.moved_tokens} of {score.prompt_tokens}",
        _number(score.recompute_share, ".0%"),
        _number(score.kl_mean, ".4f"),
        _number(score.top1_agreement, ".3f"),
        _number(score.nll_change, "+.4f"),
    )


def _number(value: float | None, format: str) -> str:
    return "n/a" if value is None else f"{value:{format}}"
