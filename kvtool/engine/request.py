"""One request from arrival to its last token."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import count

import numpy as np
import numpy.typing as npt

from kvtool.cache.manager import SequenceKV
from kvtool.cache.shifted import MovedRun, Sources
from kvtool.engine.batch import SampledToken
from kvtool.engine.metrics import Timing
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import ModelError

_request_ids = count()


class RequestStatus(Enum):
    NEW = "new"  # not added to an engine yet
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Usage:
    """Where the KV of the prompt came from: cached + shifted + recomputed + computed = prompt."""

    prompt_tokens: int
    cached_tokens: int
    shifted_tokens: int
    recomputed_tokens: int
    completion_tokens: int

    @property
    def computed_tokens(self) -> int:
        return (
            self.prompt_tokens - self.cached_tokens - self.shifted_tokens - self.recomputed_tokens
        )


class Request:
    """State of one request; the scheduler alone changes it.

    `tokens` = prompt + output so far, int32. `kv` is what it holds of the cache while it runs.
    `num_computed_tokens`: tokens whose KV exists, those served from the cache included.
    `reuse` False: neither uses cached KV nor leaves any. `shift`: text cached at other positions
    may serve it where the cache is made for that. `priority`: of its blocks, where the
    eviction policy asks for one; the lowest is evicted first.
    `forced_ids`: a recorded reply, taken instead of the sampler's choice (replay, --verify).
    `samples`: the sampled tokens, kept only where there is more to them than their ids: with
    `sampling.logprobs`, or with `keep_logits` (each carries its logits row).
    """

    def __init__(
        self,
        prompt_ids: npt.ArrayLike,
        sampling: SamplingParams,
        *,
        namespace: bytes = b"",
        reuse: bool = True,
        shift: bool = True,
        priority: int = 0,
        forced_ids: tuple[int, ...] | None = None,
        keep_logits: bool = False,
        name: str | None = None,
    ) -> None:
        prompt = np.asarray(prompt_ids, dtype=np.int32)
        assert prompt.ndim == 1 and len(prompt) > 0
        self.id = next(_request_ids)  # internal and unique; callers' names may repeat
        self.name = name
        self.sampling = sampling
        self.namespace = namespace
        self.reuse = reuse
        self.shift = shift
        self.priority = priority
        self.forced_ids = forced_ids
        self.keep_logits = keep_logits
        self.status = RequestStatus.NEW
        self.finish_reason: str | None = None  # length | stop | eos | abort | error
        self.error: ModelError | None = None  # of the finish reason "error"
        self.kv: SequenceKV | None = None
        self.num_prompt_tokens = len(prompt)
        self.num_computed_tokens = 0
        self.queried = False  # its lookup is in the statistics of the cache
        self.admitted = False  # once at least, for a step that was carried out
        self.num_cached_tokens = 0  # of the prompt, at first admission
        self.cached_by_tier: dict[str, int] = {}  # the same, by device, host, disk and remote
        self.sources = Sources()  # of the prompt, at first admission
        self.moved_runs: tuple[MovedRun, ...] = ()  # the same, run by run
        self.is_approximate = False  # some of its KV was, or rested on, moved text
        self.num_wanted_blocks: int | None = None  # when it last found no room, with its runs
        self.num_refused_plans = 0  # that failed the check of their runs
        self.barred_blocks: set[int] = set()  # donors that failed
        self.num_preemptions = 0
        self.last_step = -1  # the step this request was last part of
        self.overtaken = 0  # later arrivals that were admitted first
        self.arrival = self.id
        self._tokens = np.empty(len(prompt) + sampling.max_tokens, dtype=np.int32)
        self._tokens[: len(prompt)] = prompt
        self.num_tokens = len(prompt)
        self.samples: list[SampledToken] = []
        self.timing = Timing()

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        return self._tokens[: self.num_tokens]

    @property
    def prompt_ids(self) -> npt.NDArray[np.int32]:
        return self._tokens[: self.num_prompt_tokens]

    @property
    def output_ids(self) -> list[int]:
        ids: list[int] = self._tokens[self.num_prompt_tokens : self.num_tokens].tolist()
        return ids

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def max_tokens_total(self) -> int:
        """Tokens whose KV may ever be needed: the last sampled token is never fed back."""
        return self.num_prompt_tokens + self.sampling.max_tokens - 1

    @property
    def forced_id(self) -> int | None:
        """The recorded id of the next output token, None where none is recorded."""
        if self.forced_ids is None or self.num_output_tokens >= len(self.forced_ids):
            return None
        return self.forced_ids[self.num_output_tokens]

    @property
    def is_finished(self) -> bool:
        return self.status is RequestStatus.FINISHED

    @property
    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=self.num_prompt_tokens,
            cached_tokens=self.num_cached_tokens,
            shifted_tokens=self.sources.shifted,
            recomputed_tokens=self.sources.recomputed,
            completion_tokens=self.num_output_tokens,
        )

    def end(self, reason: str) -> None:
        self.status = RequestStatus.FINISHED
        self.finish_reason = reason

    def append(self, sampled: SampledToken) -> None:
        self._tokens[self.num_tokens] = sampled.token_id
        self.num_tokens += 1
        if self.keep_logits or self.sampling.logprobs is not None:
            self.samples.append(sampled)
