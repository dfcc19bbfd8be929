"""From token ids to a running request, and from a finished one to what is reported of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from kvtool.cli.results import (
    Completion,
    TimingReport,
    TokenLogprob,
    TokenLogprobs,
    UsageReport,
)
from kvtool.engine.admission import check_fits
from kvtool.engine.output import TextOutput
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.verify import verify
from kvtool.errors import ConfigError
from kvtool.models.tokenizer import Tokenizer, check_token_ids
from kvtool.runtime import Runtime

DIFFERENT = "different"  # the verdict of `verify` that means exit code 6
APPROXIMATE = "approximate"  # the verdict where text was moved: no tolerance is promised for that


def new_output(
    runtime: Runtime,
    token_ids: Sequence[int],
    sampling: SamplingParams,
    *,
    salt: str | None,
    verify: bool,
) -> TextOutput:
    """A request that is checked, but not yet added: raises what `Engine.add` would raise, and
    `InputError` or `ConfigError` for token ids that the model does not have."""
    vocab_size = runtime.vocab_size
    scheduler = runtime.engine.scheduler
    _check_sampling(sampling, vocab_size, scheduler.config.max_model_len)
    request = Request(
        check_token_ids(token_ids, vocab_size),
        replace(sampling, stop_ids=runtime.eos_ids),
        namespace=runtime.namespace(salt),
        keep_logits=verify,
    )
    check_fits(request, scheduler.config, scheduler.manager.num_blocks, scheduler.block_size)
    return TextOutput(request, runtime.tokenizer)


def with_max_tokens(
    sampling: SamplingParams, given: int | None, runtime: Runtime, num_prompt_tokens: int
) -> SamplingParams:
    """The most tokens of a reply: as given, else the default within what the context leaves."""
    if given is None:
        room = runtime.engine.scheduler.config.max_model_len - num_prompt_tokens
        given = max(1, min(sampling.max_tokens, room))  # 1: too long a prompt is refused as such
    return replace(sampling, max_tokens=given)


def completion(runtime: Runtime, output: TextOutput) -> Completion:
    """The report of a finished request; with `keep_logits` it is verified now."""
    request = output.request
    assert output.finish_reason is not None
    logprobs = request.sampling.logprobs is not None
    return Completion(
        text=output.text,
        token_ids=request.output_ids,
        finish_reason=output.finish_reason,
        usage=_usage(request),
        timing=_timing(request),
        logprobs=_logprobs(runtime.tokenizer, request) if logprobs else None,
        verify=_verification(runtime, request) if request.keep_logits else None,
    )


def _check_sampling(sampling: SamplingParams, vocab_size: int, max_model_len: int) -> None:
    """What a request must not even be built with."""
    if sampling.max_tokens > max_model_len:
        raise ConfigError(
            f"--max-tokens is {sampling.max_tokens}; the context holds {max_model_len} tokens."
        )
    for token in sampling.logit_bias:
        if not 0 <= token < vocab_size:
            raise ConfigError(
                f"--logit-bias names token id {token}; allowed: 0 to {vocab_size - 1}."
            )


def _usage(request: Request) -> UsageReport:
    usage = request.usage
    return UsageReport(
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        shifted_tokens=usage.shifted_tokens,
        recomputed_tokens=usage.recomputed_tokens,
        computed_tokens=usage.computed_tokens,
        completion_tokens=usage.completion_tokens,
    )


def _timing(request: Request) -> TimingReport:
    def rounded(milliseconds: float | None) -> float | None:
        return None if milliseconds is None else round(milliseconds, 3)

    timing = request.timing
    return TimingReport(
        ttft_ms=rounded(timing.ttft_ms),
        tpot_ms=rounded(timing.tpot_ms),
        total_ms=rounded(timing.total_ms),
    )


def _logprobs(tokenizer: Tokenizer, request: Request) -> list[TokenLogprobs]:
    reports = []
    for sample in request.samples:
        assert sample.logprob is not None
        top = tuple(
            TokenLogprob(token_id=token, token=tokenizer.decode([token]), logprob=logprob)
            for token, logprob in sample.top_logprobs
        )
        reports.append(
            TokenLogprobs(
                token_id=sample.token_id,
                token=tokenizer.decode([sample.token_id]),
                logprob=sample.logprob,
                top=top,
            )
        )
    return reports


def _verification(runtime: Runtime, request: Request) -> dict[str, object]:
    usage = request.usage
    found = asdict(verify(runtime.engine, request, str(runtime.effective["dtype"])))
    if request.is_approximate:
        found |= {"tolerance": None, "verdict": APPROXIMATE}
    return {"reused_tokens": usage.cached_tokens + usage.shifted_tokens, **found}
