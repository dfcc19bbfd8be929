"""What cached keys are rotated by, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvtool_kernels import Rotary, RotaryTable


class Unknown(NamedTuple):
    """A layer whose keys cannot be moved to other positions, and why."""

    reason: str


LayerLayout = Rotary | Unknown | None  # None: NoPE, the key is the same at every position


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """layers: one a layer. delta_multiple: keys may move by multiples of so many tokens."""

    layers: tuple[LayerLayout, ...]
    delta_multiple: int = 1

    @property
    def reason(self) -> str | None:
        """Why cached keys of this model cannot be moved; None: they can."""
        for index, layer in enumerate(self.layers):
            if isinstance(layer, Unknown):
                return f"layer {index}: {layer.reason}"
        return None

    def rotary(self, index: int) -> Rotary | None:
        layer = self.layers[index]
        assert not isinstance(layer, Unknown), layer
        return layer

    def tables(self, num_positions: int) -> tuple[RotaryTable | None, ...]:
        """R(position) of every position, one a layer, shared by those that turn alike."""
        made: dict[tuple[object, ...], RotaryTable] = {}
        tables: list[RotaryTable | None] = []
        for rotary in map(self.rotary, range(len(self.layers))):
            if rotary is None:
                tables.append(None)
                continue
            key = (rotary.interleaved, rotary.start, *rotary.inv_freq.tolist())
            if key not in made:
                made[key] = RotaryTable.of(rotary, num_positions)
            tables.append(made[key])
        return tuple(tables)
