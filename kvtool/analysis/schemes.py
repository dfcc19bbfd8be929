"""Reuse schemes on one trace, with a cache that never evicts: what each finds and what it saves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvtool.analysis.prompt_tree import MAX_COPIES, Prefix, PromptTree
from kvtool.analysis.scheme import SCHEMES, SHIFT_ANY, Scheme
from kvtool.analysis.symbol_repair import SymbolRepair
from kvtool.names import lookup
from kvtool.reuse.choose import choose
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import Repair
from kvtool.reuse.run import Run
from kvtool.traces.prepared import PreparedRequest, Unit

INDEX_BYTES_PER_BLOCK = 44  # of the engine's `ContentIndex`, beside the prefix index


@dataclass(slots=True, kw_only=True)
class SchemeUse:
    """Tokens over a whole trace; a hash-id trace counts them by whole symbols.

    found_tokens: stand in an earlier prompt, in front or in runs of at least min_run tokens.
    net_tokens: need not be computed. Runs are chosen as the engine does, what repair computes
    again is subtracted, and text behind a moved run is no donor, because it is not exact; prompts
    with the same beginning go on from it.
    moved_tokens: reused ones that stood at another position.
    extra_bytes: index of contents that the scheme needs beside the prefix index.
    """

    scheme: str
    measurable: bool = True
    reason: str | None = None
    prompt_tokens: int = 0
    found_tokens: int = 0
    net_tokens: int = 0
    moved_tokens: int = 0
    extra_bytes: int = 0

    @property
    def token_rate(self) -> float | None:
        return self._rate(self.found_tokens)

    @property
    def net_token_rate(self) -> float | None:
        return self._rate(self.net_tokens)

    def _rate(self, tokens: int) -> float | None:
        return tokens / self.prompt_tokens if self.measurable and self.prompt_tokens else None


class SchemeRules(NamedTuple):
    """limits: in tokens. max_copies: of one text, how many earlier places are looked at."""

    repair: Repair = Repair("auto")
    limits: Limits = Limits()
    max_copies: int = MAX_COPIES


DEFAULT_RULES = SchemeRules()


def scheme_uses(
    requests: Iterable[PreparedRequest],
    unit: Unit,
    names: Sequence[str] = tuple(SCHEMES),
    *,
    why_not_moved: str | None = None,
    rules: SchemeRules = DEFAULT_RULES,
) -> list[SchemeUse]:
    """One row a name of SCHEMES, in one pass over the requests.

    why_not_moved: of `measurable`. Raises `ConfigError` for an unknown scheme.
    """
    schemes: list[Scheme] = [lookup(SCHEMES, name, "scheme") for name in names]
    reasons = [_why_not(scheme, unit, why_not_moved) for scheme in schemes]
    replays = {s.name: _Replay(s, unit, rules) for s, why in zip(schemes, reasons) if not why}
    everything = PromptTree(unit.block_size, rules.max_copies)
    for request in requests:
        prefix = everything.match(request.symbols, request.namespace)
        for replay in replays.values():
            replay.serve(request, prefix, everything)
        everything.add(request.symbols, request.namespace, prefix)
    unknown = [
        SchemeUse(scheme=scheme.name, measurable=False, reason=why)
        for scheme, why in zip(schemes, reasons)
        if why
    ]
    rows = {use.scheme: use for use in [*unknown, *(r.use() for r in replays.values())]}
    return [rows[name] for name in names]


def _why_not(scheme: Scheme, unit: Unit, why_not_moved: str | None) -> str | None:
    if scheme.runs is None:
        return None
    if scheme is SHIFT_ANY and not why_not_moved and unit.tokens_per_symbol > 1:
        return "not measurable on this trace: its ids say nothing about offsets inside a block"
    return why_not_moved


class _Replay:
    """One scheme. exact: the donors it has, prompts up to their first moved run."""

    def __init__(self, scheme: Scheme, unit: Unit, rules: SchemeRules) -> None:
        scale = unit.tokens_per_symbol
        self._scheme = scheme
        self._scale = scale
        self._repair = SymbolRepair(rules.repair.rule, rules.repair.amount, scale)
        self._limits = rules.limits._replace(min_run=-(-rules.limits.min_run // scale))
        self._exact = PromptTree(unit.block_size, rules.max_copies)
        self._use = SchemeUse(scheme=scheme.name)

    def use(self) -> SchemeUse:
        if self._scheme.runs is not None:
            self._use.extra_bytes = INDEX_BYTES_PER_BLOCK * len(self._exact)
        return self._use

    def serve(self, request: PreparedRequest, prefix: Prefix, everything: PromptTree) -> None:
        """prefix: what any earlier prompt began with."""
        use, hit, find = self._use, self._scheme.hit(prefix), self._scheme.runs
        # The last symbol of a prompt may be cut short, and lies in no run.
        hit_tokens = min(hit * self._scale, request.num_tokens)
        use.prompt_tokens += request.num_tokens
        use.found_tokens += hit_tokens
        use.net_tokens += hit_tokens
        if find is not None:
            symbols, namespace = request.symbols, request.namespace
            found = find(everything, symbols, prefix, namespace, self._limits)
            use.found_tokens += self._scale * _num_covered(found)
            self._move(request, prefix, find(self._exact, symbols, prefix, namespace, self._limits))

    def _move(self, request: PreparedRequest, prefix: Prefix, runs: list[Run]) -> None:
        size, symbols = self._exact.block_size, request.symbols
        chosen = choose(runs, self._repair, self._limits.min_run, size)
        for run in chosen:
            reused = self._scale * (run.num_tokens - self._repair.of_run(run, size))
            self._use.net_tokens += reused
            self._use.moved_tokens += reused if run.delta else 0
        exact = self._exact.match(symbols, request.namespace)
        if self._scheme.hit(exact) < self._scheme.hit(prefix):  # the rest of it is approximate
            num_exact = exact.num_tokens
        else:
            num_exact = chosen[0].start if chosen else len(symbols)
        self._exact.add(symbols[:num_exact], request.namespace, exact)


def _num_covered(runs: list[Run]) -> int:
    """Symbols that lie in a run."""
    covered = end = 0
    for run in sorted(runs):
        covered += max(0, run.stop - max(end, run.start))
        end = max(end, run.stop)
    return covered
