"""What `prefill` computes: one prompt a file, or one of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.cli.prompt import check_stdin_once, read_prompt
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.models.chat import Message


@dataclass(frozen=True, slots=True)
class FilePrompt:
    """files: the names as given, in order."""

    files: tuple[str, ...]
    messages: list[Message]

    @property
    def name(self) -> str:
        return " + ".join(self.files)


def read_files(files: Sequence[str], system: str | None, *, concat: bool) -> list[FilePrompt]:
    """Raises `ConfigError` for files that cannot be named so, `InputError` for what they hold."""
    if not files:
        raise ConfigError("There is no FILE to compute.", hint="kvtool prefill notes.md")
    check_stdin_once(files)
    prompts = [tuple(files)] if concat else [(file,) for file in files]
    return [FilePrompt(names, read_prompt(None, names, system)) for names in prompts]


def check_kept(config: EngineConfig) -> None:
    """Raises `ConfigError` where the process would end with everything it computed."""
    if config.remote is None and not config.keeps_on_disk:
        cause = "--reuse none" if config.reuse == "none" else "--no-cache-dir without --remote"
        raise ConfigError(f"{cause} keeps no KV, so prefill has nothing to do.", hint="Drop it.")
