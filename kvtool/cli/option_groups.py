"""Options shared by several commands: a group stands for one object built from many options.

    ENGINE = OptionGroup(EngineConfig, {"model": Annotated[str | None, typer.Option(…)], …})

    @option_groups(engine=ENGINE)
    def generate(prompt: PromptArgument, *, engine: EngineConfig) -> None: …

On the command line `generate` then has the options of the group at the place of `engine`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

Command = Callable[..., None]


class OptionGroup:
    """Fields of the dataclass `config` that are options; their defaults are the fields' own.

    build: makes the object from the option values; the dataclass itself if not given.
    """

    def __init__(
        self, config: type, options: Mapping[str, Any], build: Callable[..., Any] | None = None
    ) -> None:
        defaults = {f.name: f.default for f in dataclasses.fields(config)}
        self.build = build or config
        self.parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if defaults[name] is dataclasses.MISSING else defaults[name],
                annotation=annotation,
            )
            for name, annotation in options.items()
        ]


def option_groups(**groups: OptionGroup) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        merged: list[inspect.Parameter] = []
        for own in inspect.signature(command, eval_str=True).parameters.values():
            group = groups.get(own.name)
            merged += group.parameters if group else [own.replace(kind=own.KEYWORD_ONLY)]

        @wraps(command)
        def run(**values: Any) -> None:
            built = {
                name: group.build(**{p.name: values.pop(p.name) for p in group.parameters})
                for name, group in groups.items()
            }
            command(**values, **built)

        run.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in merged}
        return run

    return decorate
