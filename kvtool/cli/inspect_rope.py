"""`--rope-check MODEL`: the facts that moved text rests on, measured on the loaded weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from kvtool.cli.boundary import fail_after_report
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.loading import logged_warnings
from kvtool.cli.model_argument import model_option
from kvtool.cli.output import write, write_json
from kvtool.cli.printable import printable
from kvtool.cli.progress import progress
from kvtool.cli.rope_view import rope_lines
from kvtool.config import EngineConfig
from kvtool.errors import VerificationError


def check_rope(folder: Path, request: InspectRequest, engine: EngineConfig) -> None:
    """Of a model whose keys cannot be moved it says why, and that is no failure. Ends with the
    code of `VerificationError` where a fact does not hold."""
    engine = model_option("--rope-check", request.rope_check, engine)
    with logged_warnings(), progress("Loading the model") as say:
        from kvtool.models.hf import PagedModel
        from kvtool.models.load import load_model
        from kvtool.models.rope_facts import rope_facts

        loaded = load_model(
            engine.model,
            revision=engine.revision,
            device=engine.device,
            dtype=engine.dtype,
            progress=say,
        )
        facts = rope_facts(PagedModel(loaded.model), loaded.tokenizer)
    if request.format == "json":
        write_json({"model": loaded.name, **finite(facts.as_dict())})
    else:
        lines = (printable(loaded.name), *rope_lines(facts))
        write("".join(f"{line}\n" for line in lines))
    if facts.reason is None and not facts.holds:
        failed = ", ".join(fact.name for fact in facts.facts if not fact.holds)
        fail_after_report(
            VerificationError(
                f"What moved text rests on does not hold for this model: {failed}.",
                hint="Use --reuse prefix with it, and please report it.",
            )
        )


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity; a fact measured so fails, and its value is null."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
