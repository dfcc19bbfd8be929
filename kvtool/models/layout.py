"""What cached keys are rotated by, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvtool_kernels import Rotary


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
