"""The engine options of `simulate-agent`: without --model they are those of the accounting."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, NamedTuple

from kvtool.cli.engine_options import ENGINE
from kvtool.cli.option_groups import OptionGroup
from kvtool.cli.options import MODEL, option
from kvtool.cli.parsers import non_empty
from kvtool.config import EngineConfig


class EngineChoice(NamedTuple):
    """config: of the engine. repair, min_run: also of the schemes compared, whatever it reuses."""

    config: EngineConfig
    repair: str
    min_run: int


def _choice(*, repair: str, min_run: int, **options: Any) -> EngineChoice:
    if options["reuse"] == "shift":
        options |= {"repair": repair, "min_run": min_run}
    return EngineChoice(EngineConfig(**options), repair, min_run)


_MODEL_OPTION = Annotated[
    str | None,
    option(
        MODEL,
        "-m",
        "--model",
        parser=non_empty,
        metavar="MODEL",
        help="Replay on this model, with measured times: a Hugging Face folder, .gguf file or hub "
        "id. demo: the model that generate runs when none is named.",
        show_default="none: accounting, without weights",
    ),
]
ENGINE_CHOICE = OptionGroup(
    EngineConfig,
    {p.name: p.annotation for p in ENGINE.parameters} | {"model": _MODEL_OPTION},
    _choice,
)

DEFAULTS = {field.name: field.default for field in fields(EngineConfig)}
