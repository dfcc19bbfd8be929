"""Files to kept KV: rendered, computed without a reply, stored, and reported as they lie there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kvtool.cache.block_keys import BlockKeys
from kvtool.cli import output
from kvtool.cli.cache_report import cache_report
from kvtool.cli.completion import new_output
from kvtool.cli.loading import wait_for_saves
from kvtool.cli.prefill_input import FilePrompt
from kvtool.cli.prefill_view import check_stored, file_line, next_command
from kvtool.cli.progress import frequent_progress
from kvtool.cli.rendering import render_beginning
from kvtool.cli.results import PrefilledFile, PrefillTiming
from kvtool.cli.text import named
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import KVToolError
from kvtool.runtime import Runtime


def run_prefill(
    runtime: Runtime,
    prompts: Sequence[FilePrompt],
    *,
    system: str | None,
    raw: bool,
    format: str,
) -> None:
    """All prompts in one continuous batch. Ends with the code of `CacheError` when nothing of a
    prompt was kept; raises `InputError` for a prompt that does not fit, before any is computed."""
    requests = [_request(runtime, prompt, raw) for prompt in prompts]
    start = time.perf_counter()
    _compute(runtime.engine, requests)
    computed = time.perf_counter()
    wait_for_saves(runtime)
    stored = time.perf_counter()
    files = [_file(runtime, prompt, request) for prompt, request in zip(prompts, requests)]
    if format == "json":
        timing = PrefillTiming(
            compute_ms=_ms(computed - start),
            store_ms=_ms(stored - computed),
            total_ms=_ms(stored - start),
        )
        cache = cache_report(runtime, requests)
        output.write_json(
            {"files": files, "timing": timing, "cache": cache, "effective": runtime.effective}
        )
    else:
        for file in files:
            output.write(f"{file_line(file)}\n")
        kept = [prompt.files for prompt, file in zip(prompts, files) if file.stored_tokens]
        if kept:
            command = next_command(runtime.config, kept[0], system=system, raw=raw)
            output.write(f"next: {command}\n")
    check_stored(files, runtime)


def _request(runtime: Runtime, prompt: FilePrompt, raw: bool) -> Request:
    try:
        rendered = render_beginning(runtime.tokenizer, prompt.messages, raw=raw)
        sampling = SamplingParams(max_tokens=1)  # the fewest there can be; it is dropped
        salt = runtime.config.salt
        return new_output(runtime, rendered.token_ids, sampling, salt=salt, verify=False).request
    except KVToolError as error:
        raise type(error)(f"{named(prompt.name)}: {error.message}", hint=error.hint) from error


def _compute(engine: Engine, requests: Sequence[Request]) -> None:
    """Raises `ModelError` for a prompt whose logits are no numbers: its KV is worth nothing."""
    with frequent_progress("Computing") as say:
        try:
            for request in requests:
                engine.add(request)
            while not all(request.is_finished for request in requests):
                engine.step()
                _say_how_far(say, requests)
        finally:
            for request in requests:
                engine.abort(request)
    for request in requests:
        if request.error is not None:
            raise request.error


def _say_how_far(say: Callable[[str], None], requests: Sequence[Request]) -> None:
    done = sum(min(r.num_computed_tokens, r.num_prompt_tokens) for r in requests)
    total = sum(request.num_prompt_tokens for request in requests)
    if done < total:
        say(f"Computed {done} of {total} tokens")


def _file(runtime: Runtime, prompt: FilePrompt, request: Request) -> PrefilledFile:
    usage, tiers = request.usage, runtime.storage.tiers
    bytes_per_token = runtime.effective["kv_bytes_per_token"]
    granule = runtime.effective["min_reusable_tokens"]
    assert tiers is not None and isinstance(bytes_per_token, int) and isinstance(granule, int)
    keys = BlockKeys(request.namespace, request.prompt_ids, runtime.config.block_size)
    tier, stored_tokens = list(tiers.coverage(keys).items())[-1]
    stored_tokens = stored_tokens // granule * granule  # a later run takes no more of it
    return PrefilledFile(
        name=prompt.name,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        shifted_tokens=usage.shifted_tokens,
        recomputed_tokens=usage.recomputed_tokens,
        computed_tokens=usage.computed_tokens,
        stored_tokens=stored_tokens,
        stored_bytes=stored_tokens * bytes_per_token,
        tier=tier,
    )


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
