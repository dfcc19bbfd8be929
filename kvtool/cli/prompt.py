"""The prompt of the command line: files first, in order, joined by blank lines, then PROMPT,
together one user message."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.cli.text import STDIN, check_text, named, read_text
from kvtool.errors import ConfigError, InputError
from kvtool.models.chat import Message


def check_sources(
    prompt: str | None,
    files: Sequence[str] | None,
    *,
    messages: str | None,
    append: bool,
    raw: bool,
    system: str | None,
    batch: str | None,
) -> None:
    """Raises `ConfigError` for sources that cannot go together, before anything is read."""
    given = {"PROMPT": prompt, "--file": files, "--system": system, "--messages": messages}
    named = [name for name, value in given.items() if value is not None and value != []]
    if batch is not None and (named or append):
        raise ConfigError(
            f"--batch has its own prompts; drop {', '.join([*named, *['--append'] * append])}."
        )
    if batch is None and prompt is None and not files and messages is None:
        raise ConfigError(
            "There is no prompt: give PROMPT, --file, --messages or --batch.",
            hint='kvtool generate "What is the capital of France?"',
        )
    if messages is not None and system is not None:
        raise ConfigError("--messages has its own system message; drop --system.")
    if append and (messages is None or messages == STDIN):
        raise ConfigError("--append needs --messages with a file to write to.")
    if append and raw:
        raise ConfigError("--raw has no turns that a reply could be appended to; drop --append.")
    check_stdin_once([prompt, *(files or ()), messages])


def check_stdin_once(sources: Sequence[str | None]) -> None:
    if sources.count(STDIN) > 1:
        raise ConfigError("stdin (-) is named twice; it can be read once.")


def read_prompt(prompt: str | None, files: Sequence[str], system: str | None) -> list[Message]:
    """The user's message, behind the system's if there is one; raises `InputError`."""
    parts = [(named(path), read_text(path)) for path in files]
    if prompt is not None:
        is_stdin = prompt == STDIN
        text = read_text(STDIN) if is_stdin else check_text(prompt, "PROMPT")
        parts.append((named(STDIN) if is_stdin else "PROMPT", text))
    for where, text in parts:
        if not text:
            raise InputError(f"{where} is empty.", hint="Give at least one character of text.")
    user: Message = {"role": "user", "content": "\n\n".join(text for _, text in parts)}
    if system is None:
        return [user]
    return [{"role": "system", "content": check_text(system, "--system")}, user]
