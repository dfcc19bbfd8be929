"""Many prompts at once: one request a line in, one JSON line each out, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

from kvtool.cli import output
from kvtool.cli.batch_input import BadLine, BatchLine
from kvtool.cli.boundary import fail_after_report, unforeseen
from kvtool.cli.cache_report import cache_report, stats_rows
from kvtool.cli.completion import completion, new_output, with_max_tokens
from kvtool.cli.generation import check_verdicts
from kvtool.cli.loading import wait_for_saves
from kvtool.cli.rendering import render_prompt
from kvtool.cli.results import Completion, View
from kvtool.cli.verify_view import batch_verify_rows
from kvtool.engine.output import TextOutput
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.stream import stream
from kvtool.errors import ConfigError, InputError, KVToolError
from kvtool.runtime import Runtime


class Started(NamedTuple):
    line: BatchLine
    reply: TextOutput


class _Defaults(NamedTuple):
    """What holds for a line that does not say otherwise."""

    sampling: SamplingParams
    max_tokens: int | None
    raw: bool
    verify: bool


def run_batch(
    runtime: Runtime,
    lines: Sequence[BatchLine | BadLine],
    sampling: SamplingParams,
    *,
    raw: bool,
    view: View,
    max_tokens: int | None = None,
) -> None:
    """All lines in one continuous batch; options are defaults for what a line leaves open.

    max_tokens: of each reply, if it was given; else see `with_max_tokens`. A bad line becomes an error line and the rest goes on; the exit code is then 5.
    """
    defaults = _Defaults(sampling, max_tokens, raw, view.verify)
    items = [_start(runtime, line, defaults) for line in lines]
    replies = [item.reply for item in items if isinstance(item, Started)]
    printer = _Printer(runtime, items)
    for delta in stream(runtime.engine, replies):
        if delta.output.finish_reason is not None:
            printer.finished.add(delta.output.request.id)
            if not view.verify:  # which needs the engine for itself
                printer.print_finished()
    if view.stats:
        wait_for_saves(runtime)
    cache = cache_report(runtime, [reply.request for reply in replies])
    printer.print_finished()
    if view.verify and view.format == "human" and printer.results:
        output.talk_table("verify", batch_verify_rows(printer.results))
    if view.stats:
        rows = stats_rows(printer.results, cache, runtime.effective)
        output.talk_table("statistics", rows)
    check_verdicts(printer.results)
    _check_lines(printer.failed, len(items))


def _start(runtime: Runtime, line: BatchLine | BadLine, defaults: _Defaults) -> Started | BadLine:
    if isinstance(line, BadLine):
        return line
    try:
        return Started(line, _output(runtime, line, defaults))
    except KVToolError as error:
        return BadLine(line.line, line.custom_id, _in_words_of_the_line(error, line))
    except Exception as error:  # whatever one line does, the others go on
        return BadLine(line.line, line.custom_id, unforeseen(error))


def _output(runtime: Runtime, line: BatchLine, defaults: _Defaults) -> TextOutput:
    seed = runtime.config.seed + line.line - 1  # equal prompts are sampled differently
    sampling = replace(defaults.sampling, **{"seed": seed, **line.sampling})
    token_ids = _token_ids(runtime, line, defaults.raw)
    max_tokens = line.sampling.get("max_tokens", defaults.max_tokens)
    return new_output(
        runtime,
        token_ids,
        with_max_tokens(sampling, max_tokens, runtime, len(token_ids)),
        salt=line.salt if line.salt is not None else runtime.config.salt,
        verify=defaults.verify,
    )


def _token_ids(runtime: Runtime, line: BatchLine, raw: bool) -> list[int]:
    if line.token_ids is not None:
        return line.token_ids
    assert line.messages is not None
    own = raw if line.raw is None else line.raw
    vocab_size = runtime.vocab_size
    return render_prompt(runtime.tokenizer, line.messages, raw=own, vocab_size=vocab_size).token_ids


def _in_words_of_the_line(error: KVToolError, line: BatchLine) -> KVToolError:
    """A value that the line itself set has the name of its field, not of the option."""
    if not isinstance(error, ConfigError):
        return error
    message, hint = error.message, error.hint
    for field in line.sampling:
        option = f"--{field.replace('_', '-')}"
        message = message.replace(option, field)
        hint = hint and hint.replace(option, field)
    return InputError(message, hint=hint)


class _Printer:
    """Writes each line as soon as it and all lines in front of it are done.

    finished: ids of the requests whose last text has come. failed: numbers of the error lines.
    """

    def __init__(self, runtime: Runtime, items: Sequence[Started | BadLine]) -> None:
        self.results: list[Completion] = []
        self.failed: list[int] = []
        self.finished: set[int] = set()
        self._runtime = runtime
        self._pending = list(reversed(items))

    def print_finished(self) -> None:
        while self._pending and self._is_done(self._pending[-1]):
            self._print(self._pending.pop())

    def _is_done(self, item: Started | BadLine) -> bool:
        return isinstance(item, BadLine) or item.reply.request.id in self.finished

    def _print(self, item: Started | BadLine) -> None:
        if isinstance(item, BadLine):
            self._print_error(item)
            return
        if item.reply.request.error is not None:
            line, error = item.line, item.reply.request.error
            self._print_error(BadLine(line.line, line.custom_id, error))
            return
        result = completion(self._runtime, item.reply)
        item.reply.request.samples.clear()  # logits are large
        self.results.append(result)
        head = {"line": item.line.line, "custom_id": item.line.custom_id}
        body = {field.name: getattr(result, field.name) for field in fields(result)}
        present = {k: v for k, v in body.items() if v is not None}
        output.write_json({**head, **present})

    def _print_error(self, bad: BadLine) -> None:
        self.failed.append(bad.line)
        head = {"line": bad.line, "custom_id": bad.custom_id}
        output.write_json({**head, "error": output.error_document(bad.error)})


def _check_lines(failed: Sequence[int], num_lines: int) -> None:
    if failed:
        listed = ", ".join(map(str, failed[:5])) + (", …" if len(failed) > 5 else "")
        message = f"{len(failed)} of {num_lines} requests failed (lines {listed})."
        hint = "Their output lines say why; the others are complete."
        fail_after_report(InputError(message, hint=hint))
