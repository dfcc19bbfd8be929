"""One prompt: run it, show its text as it comes, report it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from kvtool.cli import output
from kvtool.cli.boundary import fail_after_report
from kvtool.cli.cache_report import cache_report, stats_rows
from kvtool.cli.completion import DIFFERENT, completion, new_output, with_max_tokens
from kvtool.cli.loading import wait_for_saves
from kvtool.cli.rendering import RenderedPrompt, render_prompt
from kvtool.cli.results import Completion, View
from kvtool.cli.transcript import Transcript, reply_message
from kvtool.cli.verify_view import verify_rows
from kvtool.engine.output import TextOutput
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.stream import stream
from kvtool.errors import VerificationError
from kvtool.models.chat import Message
from kvtool.runtime import Runtime


def run_prompt(
    runtime: Runtime,
    messages: Sequence[Message],
    sampling: SamplingParams,
    *,
    raw: bool,
    view: View,
    max_tokens: int | None = None,
    transcript: Transcript | None = None,
) -> None:
    """Ends with the code of `VerificationError` when reuse changed the logits; raises `ModelError`
    when they are no numbers to sample from.

    max_tokens: of the reply, if it was given; else see `with_max_tokens`.
    transcript: gets the reply, and the messages behind those it has.
    """
    prompt = render_prompt(runtime.tokenizer, messages, raw=raw, vocab_size=runtime.vocab_size)
    sampling = replace(sampling, seed=runtime.config.seed)
    sampling = with_max_tokens(sampling, max_tokens, runtime, len(prompt.token_ids))
    salt = runtime.config.salt
    reply = new_output(runtime, prompt.token_ids, sampling, salt=salt, verify=view.verify)
    _follow(runtime, reply, show=view.format == "human")
    if reply.request.error is not None:
        raise reply.request.error
    if view.format == "json" or view.stats:
        wait_for_saves(runtime)
    cache = cache_report(runtime, [reply.request])
    result = completion(runtime, reply)
    if transcript is not None:
        added = [*messages[len(transcript.messages) :], _reply(runtime, prompt, reply)]
        transcript.append(added)
    effective = {**runtime.effective, "max_tokens": sampling.max_tokens}
    _report(result, cache, effective, view)


def _follow(runtime: Runtime, reply: TextOutput, *, show: bool) -> None:
    """Run to the end; what was shown ends with a newline, after Ctrl-C as well."""
    try:
        for delta in stream(runtime.engine, [reply]):
            if show and delta.text:
                output.write(delta.text)
    finally:
        if show and not reply.text.endswith("\n"):
            output.write("\n")


def _reply(runtime: Runtime, prompt: RenderedPrompt, reply: TextOutput) -> Message:
    ids = reply.request.output_ids
    if ids and ids[-1] in runtime.eos_ids:
        ids = ids[:-1]
    return reply_message(runtime.tokenizer, prompt.text, prompt.token_ids, reply.text, ids)


def _report(
    result: Completion, cache: Mapping[str, object], effective: Mapping[str, object], view: View
) -> None:
    if view.format == "json":
        document = {field.name: getattr(result, field.name) for field in fields(result)}
        optional = {name: document.pop(name) for name in ("logprobs", "verify")}
        present = {name: value for name, value in optional.items() if value is not None}
        output.write_json({**document, "cache": cache, "effective": effective, **present})
    else:
        _talk_logprobs(result)
        if result.verify is not None:
            output.talk_table("verify", verify_rows(result))
    if view.stats:
        output.talk_table("statistics", stats_rows([result], cache, effective))
    check_verdicts([result])


def _talk_logprobs(result: Completion) -> None:
    for token in result.logprobs or ():
        top = ", ".join(f"{other.token!r} {other.logprob:.4f}" for other in token.top)
        output.talk(
            f"{token.token!r} {token.logprob:.4f}" + (f" (likeliest: {top})" if top else "")
        )


def check_verdicts(results: Sequence[Completion]) -> None:
    verdicts = [result.verify for result in results if result.verify is not None]
    worst = [verdict for verdict in verdicts if verdict["verdict"] == DIFFERENT]
    if worst:
        message = (
            f"With the cache, {len(worst)} of {len(verdicts)} replies have other logits than "
            f"without: they differ by {worst[0]['max_abs_logit_diff']}, "
            f"allowed is {worst[0]['tolerance']}."
        )
        hint = "Please report it, with the model and the command."
        fail_after_report(VerificationError(message, hint=hint))
