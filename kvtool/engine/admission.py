"""May a request enter at all, and is there room for it now?"""

from __future__ import annotations

from kvtool.config import SchedulerConfig
from kvtool.engine.request import Request
from kvtool.errors import CacheError, ConfigError, InputError


def num_blocks_for(num_tokens: int, block_size: int) -> int:
    return -(-num_tokens // block_size)


def check_fits(request: Request, config: SchedulerConfig, num_blocks: int, block_size: int) -> None:
    """Refuse a request that could never be served, however long it waited.

    Raises `InputError` for a prompt that fills the context by itself (the input is too long),
    `ConfigError` where only `max_tokens` is too much for what the prompt leaves (the option is),
    `CacheError` where the KV of prompt and reply exceeds the whole pool. Nothing is truncated.
    """
    prompt, reply = request.num_prompt_tokens, request.sampling.max_tokens
    if prompt >= config.max_model_len:
        raise InputError(
            f"The prompt has {prompt} tokens; the context holds {config.max_model_len}, "
            "at least one of them for the reply.",
            hint="Shorten the prompt, or raise --max-model-len as far as the model allows.",
        )
    if prompt + reply > config.max_model_len:
        raise ConfigError(
            f"The prompt has {prompt} tokens and --max-tokens is {reply}, together "
            f"{prompt + reply}; the context holds {config.max_model_len}.",
            hint=f"Use --max-tokens {config.max_model_len - prompt} or less, or shorten the prompt.",
        )
    needed = num_blocks_for(request.max_tokens_total, block_size)
    if needed > num_blocks:
        raise CacheError(
            f"Prompt ({prompt} tokens) and reply (--max-tokens {reply}) need {needed} blocks of "
            f"{block_size} tokens; the cache has {num_blocks}: {needed - num_blocks} are missing.",
            hint=_hint(prompt, num_blocks * block_size, needed),
        )


def _hint(num_prompt_tokens: int, num_slots: int, needed: int) -> str:
    larger = f"Use --kv-blocks {needed} or a larger --kv-memory"
    room = num_slots - num_prompt_tokens + 1  # the last sampled token needs no slot
    if room < 1:
        return f"{larger}."
    return (
        f"{larger}, or --max-tokens {room} or less; where that is not given, "
        f"--max-model-len {num_slots + 1} or less."
    )


def has_room(needed: int, promised: int, available: int, watermark: int) -> bool:
    """Blocks a newcomer needs, beside those the running requests still need for the tokens they
    have, and a reserve for the tokens they will sample. Not asked while nothing else runs."""
    return needed + promised + watermark <= available
