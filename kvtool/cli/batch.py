"""Many prompts at once: one request a line in, one JSON line each out, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

from kvtool.cli import output
from kvtool.cli.batch_input import BadLine, BatchLine
from kvtool.cli.boundary import fail_after_report
from kvtool.cli.cache_report import cache_report, stats_rows
from kvtool.cli.completion import completion, new_output
from kvtool.cli.generation import check_verdicts
from kvtool.cli.rendering import render_prompt
from kvtool.cli.results import Completion, View
from kvtool.engine.output import TextOutput
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.stream import stream
from kvtool.errors import InputError, KVToolError
from kvtool.runtime import Runtime


class Started(NamedTuple):
    line: BatchLine
    reply: TextOutput


def run_batch(
    runtime: Runtime,
    lines: Sequence[BatchLine | BadLine],
    sampling: SamplingParams,
    *,
    raw: bool,
    view: View,
) -> None:
    """All lines in one continuous batch; options are defaults for what a line leaves open.

    A bad line becomes an error line and the rest goes on; the exit code is then 5.
    """
    items = [_start(runtime, line, sampling, raw, view.verify) for line in lines]
    replies = [item.reply for item in items if isinstance(item, Started)]
    printer = _Printer(runtime, items)
    for delta in stream(runtime.engine, replies):
        if delta.output.finish_reason is not None:
            printer.finished.add(delta.output.request.id)
            if not view.verify:  # which needs the engine for itself
                printer.print_finished()
    cache = cache_report(runtime.engine)
    printer.print_finished()
    if view.stats:
        rows = stats_rows(printer.results, cache, runtime.effective)
        output.talk_table("statistics", rows)
    check_verdicts(printer.results)
    _check_lines(items)


def _start(
    runtime: Runtime,
    line: BatchLine | BadLine,
    sampling: SamplingParams,
    raw: bool,
    verify: bool,
) -> Started | BadLine:
    if isinstance(line, BadLine):
        return line
    try:
        seed = runtime.config.seed + line.line - 1  # equal prompts are sampled differently
        own = replace(sampling, **{"seed": seed, **line.sampling})
        salt = line.salt if line.salt is not None else runtime.config.salt
        token_ids = _token_ids(runtime, line, raw)
        return Started(line, new_output(runtime, token_ids, own, salt=salt, verify=verify))
    except KVToolError as error:
        return BadLine(line.line, line.custom_id, error)


def _token_ids(runtime: Runtime, line: BatchLine, raw: bool) -> list[int]:
    if line.token_ids is not None:
        return line.token_ids
    assert line.messages is not None
    own = raw if line.raw is None else line.raw
    return render_prompt(runtime.tokenizer, line.messages, raw=own).token_ids


class _Printer:
    """Writes each line as soon as it and all lines in front of it are done.

    finished: ids of the requests whose last text has come.
    """

    def __init__(self, runtime: Runtime, items: Sequence[Started | BadLine]) -> None:
        self.results: list[Completion] = []
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
            head = {"line": item.line, "custom_id": item.custom_id}
            output.write_json({**head, "error": output.error_document(item.error)})
            return
        result = completion(self._runtime, item.reply)
        item.reply.request.samples.clear()  # logits are large
        self.results.append(result)
        head = {"line": item.line.line, "custom_id": item.line.custom_id}
        body = {field.name: getattr(result, field.name) for field in fields(result)}
        present = {k: v for k, v in body.items() if v is not None}
        output.write_json({**head, **present})


def _check_lines(items: Sequence[Started | BadLine]) -> None:
    bad = [item.line for item in items if isinstance(item, BadLine)]
    if bad:
        listed = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        message = f"{len(bad)} of {len(items)} requests failed (lines {listed})."
        hint = "Their output lines say why; the others are complete."
        fail_after_report(InputError(message, hint=hint))
