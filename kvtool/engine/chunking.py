"""How many tokens the next forward takes of a request, and which KV others may then use.

Ordinary mode: as many as the budget allows, and all KV may be shared.

Deterministic mode makes logits bit-identical cold and warm. The prompt is cut at multiples of
`deterministic_chunk` and nowhere else, so a token is always computed in the same company, and
only KV of whole prompt chunks is shared. Everything behind the prompt, a preempted reply that
is computed again included, goes token by token, as it did the first time.
"""

from __future__ import annotations

from kvtool.config import SchedulerConfig
from kvtool.engine.request import Request
from kvtool.errors import ConfigError


def next_chunk(request: Request, budget: int, config: SchedulerConfig) -> int:
    """Tokens of `request` for the next forward, at least one."""
    start = request.num_computed_tokens
    if not config.deterministic:
        return min(request.num_tokens - start, budget)
    if start >= request.num_prompt_tokens:
        return 1
    boundary = (start // config.deterministic_chunk + 1) * config.deterministic_chunk
    return min(boundary, request.num_prompt_tokens) - start


def num_shareable_tokens(request: Request, num_tokens: int, config: SchedulerConfig) -> int:
    """How many of the first `num_tokens` tokens have KV that other requests may use.

    None of a request without reuse: its KV would be replaced by the cached twin it must not read.
    """
    if not request.reuse:
        return 0
    if not config.deterministic:
        return num_tokens
    of_prompt = min(num_tokens, request.num_prompt_tokens)
    return of_prompt // config.deterministic_chunk * config.deterministic_chunk


def check_chunking(config: SchedulerConfig, block_size: int) -> None:
    """A deterministic chunk is whole blocks and goes into one forward; else `ConfigError`."""
    if not config.deterministic:
        return
    chunk = config.deterministic_chunk
    if chunk % block_size:
        raise ConfigError(
            f"--block-size is {block_size}; with --deterministic it must divide {chunk}.",
            hint="Use --block-size 16.",
        )
    if config.max_num_batched_tokens < chunk:
        raise ConfigError(
            f"--max-num-batched-tokens is {config.max_num_batched_tokens}; "
            f"with --deterministic it must be at least {chunk}.",
            hint=f"Use --max-num-batched-tokens {chunk}.",
        )
