"""What repair costs where a symbol stands for several tokens."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.reuse.repair import Repair
from kvtool.reuse.run import Run


@dataclass(frozen=True, slots=True)
class SymbolRepair(Repair):
    """A `Repair` of runs and blocks measured in symbols; part of a symbol costs all of it."""

    tokens_per_symbol: int = 1

    def cost(self, num_tokens: int, at_sink: bool, block_size: int) -> int:
        scale = self.tokens_per_symbol
        tokens = Repair.cost(self, num_tokens * scale, at_sink, block_size * scale)
        return -(-tokens // scale)

    def of_run(self, run: Run, block_size: int) -> int:
        return self.cost(run.num_tokens, run.at_sink, block_size)
