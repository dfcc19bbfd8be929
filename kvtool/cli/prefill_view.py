"""What `prefill` says to people: a line a file, what to run next, what is not kept and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvtool.cli import output
from kvtool.cli.boundary import fail_after_report
from kvtool.cli.printable import printable, shell_words
from kvtool.cli.results import PrefilledFile
from kvtool.cli.sizes import format_size
from kvtool.cli.text import named
from kvtool.config import EngineConfig
from kvtool.errors import CacheError
from kvtool.runtime import Runtime

# The options that say which KV it is and where it lies.
_OPTIONS = (
    *("model", "revision", "device", "dtype", "block_size", "prefix_index", "deterministic"),
    *("cache_dir", "no_cache_dir", "remote"),
)


def file_line(file: PrefilledFile) -> str:
    moved = f"{file.shifted_tokens} moved, {file.recomputed_tokens} of moved text computed again, "
    return (
        f"{_name(file)}: {file.prompt_tokens} tokens, {file.cached_tokens} from the cache, "
        f"{moved * (file.shifted_tokens > 0)}{file.computed_tokens} computed; "
        f"{file.stored_tokens} kept on {file.tier} "
        f"({format_size(file.stored_bytes)})"
    )


def next_command(
    config: EngineConfig, files: Sequence[str], *, system: str | None, raw: bool
) -> str:
    """How `generate` starts from these files; a salt is not repeated."""
    words = ["kvtool", "generate"]
    for file in files:
        words += ["--file", file]
    words.append("Your question")
    if system is not None:
        words += ["--system", system]
    if raw:
        words.append("--raw")
    default = EngineConfig()
    for name in _OPTIONS:
        value = getattr(config, name)
        if value != getattr(default, name):
            option = f"--{name.replace('_', '-')}"
            words += [option] if value is True else [option, str(value)]
    salt = "" if config.salt is None else " --salt …"
    return shell_words(words) + salt


def _name(file: PrefilledFile) -> str:
    return printable(named(file.name))


def check_stored(files: Sequence[PrefilledFile], runtime: Runtime) -> None:
    """Warns of every prompt whose KV is not kept whole; ends with the code of `CacheError` where
    none of it is: nobody can start from that."""
    for file in files:
        if file.stored_tokens < file.prompt_tokens:
            output.warn(
                f"{_name(file)}: {file.stored_tokens} of {file.prompt_tokens} tokens are "
                f"kept on {file.tier}: {_reason(file, runtime)}."
            )
    lost = [file for file in files if file.stored_tokens == 0]
    if lost:
        fail_after_report(
            CacheError(
                f"Nothing is kept of {_prompts(len(lost), len(files))}.",
                hint="The warnings say why; the KV was computed and is gone.",
            )
        )


def _prompts(some: int, all_of_them: int) -> str:
    if some == all_of_them:
        return "the prompt" if some == 1 else f"all {some} prompts"
    return f"{some} of {all_of_them} prompts"


def _reason(file: PrefilledFile, runtime: Runtime) -> str:
    if file.shifted_tokens:
        return "behind text that was moved here nothing is exact, and only exact KV is kept"
    assert runtime.storage.tiers is not None
    rows: list[dict[str, Any]] = runtime.storage.tiers.report()
    reasons = next(row["not_stored"] for row in rows if row["name"] == file.tier)
    if reasons:
        return "; ".join(reasons)
    granule = _granule(file.tier, runtime)
    if file.stored_tokens == file.prompt_tokens // granule * granule:
        return f"only multiples of {granule} tokens can be reused here"
    return "the rest made room for newer KV"


def _granule(tier: str, runtime: Runtime) -> int:
    """A remote store keeps whole blocks; the options may ask for more."""
    smallest = runtime.effective["min_reusable_tokens"]
    assert isinstance(smallest, int)
    return max(smallest, runtime.config.block_size) if tier == "remote" else smallest
