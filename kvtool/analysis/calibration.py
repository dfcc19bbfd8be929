"""Predicted hits against those that the log recorded: how far a simulation can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses, Floats, Ints

DISAGREES_PP = 5.0  # of a request's prompt: more than a provider's own granularity explains
NEARLY_ALL = 0.8  # of the recorded prompt tokens; tokenizers differ by less
SAME_PP = 0.5  # fits that differ by less are equally good
TTLS_S = (300, 3600)  # what providers promise: five minutes, or an hour for more money


class CacheRecord(NamedTuple):
    """What the log says of one request. position: in the order of the trace. prompt_tokens: all
    of the prompt as the provider counted it, None where only the cached ones are recorded."""

    position: int
    id: str
    place: str
    cached_tokens: int
    prompt_tokens: int | None


class Candidate(NamedTuple):
    """One assumption about the cache that was recorded. error_pp: predicted - recorded, of all
    tokens; mean_abs_error_pp: mean over requests of the difference of their rates."""

    name: str
    hit_tokens: int
    rate: float
    error_pp: float
    mean_abs_error_pp: float


class Disagreement(NamedTuple):
    """A request whose rates differ by more than DISAGREES_PP. idle_s: since its prefix was last
    used; None: unknown, or never."""

    id: str
    place: str
    recorded_tokens: int
    recorded_rate: float
    predicted_tokens: int
    predicted_rate: float
    error_pp: float
    idle_s: float | None
    likely: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Over the requests with a record. Predicted tokens are those of the replay in its own
    tokens; what is compared are shares of the prompts, because tokenizers differ.

    candidates: the replay first, then other caches: one without limits, one with each of TTLS_S.
    """

    requests: int
    recorded_tokens: int
    recorded_prompt_tokens: int
    prompt_tokens: int
    candidates: Sequence[Candidate]
    disagreeing: Sequence[Disagreement]

    @property
    def recorded_rate(self) -> float:
        return self.recorded_tokens / self.recorded_prompt_tokens

    @property
    def best(self) -> list[Candidate]:
        """The assumptions that the log fits most closely, request by request: several where they
        differ by SAME_PP or less."""
        least = min(one.mean_abs_error_pp for one in self.candidates)
        return [one for one in self.candidates if one.mean_abs_error_pp <= least + SAME_PP]

    @property
    def left_out(self) -> str | None:
        """Where the log holds clearly less text than was sent: what the rates say of the rest."""
        if self.prompt_tokens >= NEARLY_ALL * self.recorded_prompt_tokens:
            return None
        text = (
            f"the log holds {self.prompt_tokens:,} of {self.recorded_prompt_tokens:,} recorded "
            "prompt tokens"
        )
        error_pp = self.candidates[0].error_pp
        if error_pp < -SAME_PP:
            return f"{text}; more was cached than the replay finds: perhaps of what is left out"
        if error_pp > SAME_PP:
            return (
                f"{text}; less was cached than the replay finds: some of it was gone (evicted, "
                "expired), or what is left out was not cached"
            )
        return text


def calibration(
    records: Sequence[CacheRecord], hits: Ints, prompts: Ints, accesses: Accesses
) -> Calibration | None:
    """hits, prompts: int64 [R], the replay's hit tokens and the prompts they are of. None where
    nothing was recorded."""
    records = [one for one in records if one.prompt_tokens != 0]
    if not records:
        return None
    positions = np.array([one.position for one in records])
    asked = prompts[positions]
    recorded = np.array([one.cached_tokens for one in records])
    recorded_asked = np.array(
        [
            prompts[one.position] if one.prompt_tokens is None else one.prompt_tokens
            for one in records
        ]
    )
    predictions = {"replay": hits, **_other_caches(accesses, hits)}
    rates = recorded / recorded_asked
    share = int(recorded.sum()) / int(recorded_asked.sum())
    return Calibration(
        requests=len(records),
        recorded_tokens=int(recorded.sum()),
        recorded_prompt_tokens=int(recorded_asked.sum()),
        prompt_tokens=int(asked.sum()),
        candidates=[
            _candidate(name, tokens[positions], asked, rates, share)
            for name, tokens in predictions.items()
        ],
        disagreeing=_disagreeing(records, hits, prompts, rates, _idle_s(accesses)),
    )


def _candidate(name: str, hits: Ints, asked: Ints, rates: Floats, share: float) -> Candidate:
    rate = int(hits.sum()) / int(asked.sum())
    mean_abs = float(np.abs(hits / asked - rates).mean())
    return Candidate(name, int(hits.sum()), rate, 100 * (rate - share), 100 * mean_abs)


def _other_caches(accesses: Accesses, hits: Ints) -> Mapping[str, Ints]:
    """Hit tokens by request of caches that hold everything, for ever or for a while.

    Accesses are whole blocks of prompts. What the replay finds behind them, in a part of a block or
    of a reply, these caches find too, where they have all that is in front.
    """
    again = accesses.previous >= 0
    whole = _tokens_by_request(accesses, again)
    behind = np.maximum(0, hits - whole)
    found = {"unlimited": whole + behind}
    if not np.isnan(accesses.arrivals).any():
        times = accesses.arrivals[accesses.requests]
        for ttl_s in TTLS_S:
            recent = again & (times - times[accesses.previous] <= ttl_s)
            kept = _tokens_by_request(accesses, recent)
            found[f"ttl:{ttl_s}"] = kept + np.where(kept == whole, behind, 0)
    return found


def _tokens_by_request(
    accesses: Accesses, hits: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Ints:
    tokens: Ints = np.zeros(accesses.num_requests, dtype=np.int64)
    np.add.at(tokens, accesses.requests[hits], accesses.tokens[hits])
    return tokens


def _idle_s(accesses: Accesses) -> Floats:
    """[R]: since the deepest known block of each request was last used; nan where none is."""
    idle = np.full(accesses.num_requests, np.nan)
    again = np.flatnonzero(accesses.previous >= 0)
    times = accesses.arrivals[accesses.requests]
    idle[accesses.requests[again]] = times[again] - times[accesses.previous[again]]
    return idle


def _disagreeing(
    records: Sequence[CacheRecord], hits: Ints, prompts: Ints, rates: Floats, idle_s: Floats
) -> list[Disagreement]:
    found = []
    for one, rate in zip(records, rates.tolist()):
        predicted, asked = int(hits[one.position]), int(prompts[one.position])
        error_pp = 100 * (predicted / asked - rate)
        if abs(error_pp) <= DISAGREES_PP:
            continue
        idle = float(idle_s[one.position])
        known = None if isnan(idle) else idle
        likely = _likely(error_pp, known)
        found.append(
            Disagreement(
                one.id,
                one.place,
                one.cached_tokens,
                rate,
                predicted,
                predicted / asked,
                error_pp,
                known,
                likely,
            )
        )
    return sorted(found, key=lambda one: -abs(one.predicted_tokens - one.recorded_tokens))


def _likely(error_pp: float, idle_s: float | None) -> str:
    if error_pp < 0:
        return (
            "more was cached than the log shows: it leaves out text in front (a system prompt, "
            "tools), or other requests had warmed the cache"
        )
    if idle_s is not None and idle_s > TTLS_S[0]:
        return f"its prefix had not been used for {idle_s:.0f} s: probably expired (TTL)"
    return (
        "it was evicted, went to a machine that did not have it, or was sent without asking for "
        "a cache"
    )
