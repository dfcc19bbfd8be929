"""What rotary-corrected reuse rests on, measured on a loaded model.

RoPE (Su et al., "RoFormer", 2021) makes a key depend on its position by a rotation. Whether that
holds for this model, with its weights, scaling and precision, is not believed but measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvtool.errors import ModelError
from kvtool.models.hf import PagedModel
from kvtool.models.layout import Layout
from kvtool.models.layout_probe import probe_layout
from kvtool.models.rope_algebra import TurnedKeys, rotations_add
from kvtool.models.rope_fact import Fact
from kvtool.models.rope_pairs import LayerPairs, layer_pairs
from kvtool.models.rope_places import (
    BLOCK_SIZE,
    Texts,
    first_layer_moves,
    same_text_at_two_positions,
    stored_kv,
)
from kvtool.models.rope_scores import Pair, query_turns_instead, scores_depend_on_distance
from kvtool.models.tokenizer import Tokenizer

TEXT = (
    "A river is a natural stream of fresh water that flows on land towards another body of water "
    "at a lower elevation, such as an ocean, a lake or another river. It begins at a source, most "
    "often a spring, a lake or a glacier, gathers its tributaries, and ends at its mouth. On its "
    "way it carves valleys, carries gravel and sand, and feeds the plains along its banks. "
)
NEAR = "Some notes on water, written for a school book and never printed. "
FAR = (
    "The list of what was left in the house: four chairs, a lamp without a shade, two boxes of "
    "letters, a clock that had stopped at ten past three, and the key to a door nobody found. "
)
FARTHEST = 131072  # tokens; moves are measured up to here, or as far as the context goes


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeFacts:
    """reason: why keys of this model cannot be moved; then pairs and facts are empty.

    context: tokens. delta_multiple: keys may move by multiples of so many tokens.
    """

    architecture: str
    dtype: str
    rope_regime: str
    context: int
    delta_multiple: int
    reason: str | None
    pairs: tuple[LayerPairs, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether keys can be moved and every fact is within its tolerance."""
        return self.reason is None and all(fact.holds for fact in self.facts)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "architecture": self.architecture,
            "dtype": self.dtype,
            "rope_regime": self.rope_regime,
            "context": self.context,
            "delta_multiple": self.delta_multiple,
            "holds": self.holds,
            "reason": self.reason,
            "pairs": [pairs.as_dict() for pairs in self.pairs],
            "facts": [fact.as_dict() for fact in self.facts],
        }


def rope_facts(
    paged: PagedModel, tokenizer: Tokenizer | None = None, *, namespace: bytes = b"rope facts"
) -> RopeFacts:
    """Three small forwards and some of layer 0; needs no pools and leaves the model as it was.

    Without a tokenizer the "text" is some token ids. namespace: of the block hashes compared.
    Raises `ModelError` for a context too short to hold a text at two positions.
    """
    layout = paged.layout or probe_layout(paged)
    pairs: tuple[LayerPairs, ...] = ()
    facts: tuple[Fact, ...] = ()
    if layout.reason is None:
        pairs = layer_pairs(layout, paged.layers, paged.max_model_len)
        facts = tuple(_facts(paged, layout, pairs, _texts(paged, tokenizer), namespace))
    return RopeFacts(
        architecture=paged.architecture,
        dtype=str(paged.dtype).removeprefix("torch."),
        rope_regime=paged.rope_regime,
        context=paged.max_model_len,
        delta_multiple=layout.delta_multiple,
        reason=layout.reason,
        pairs=pairs,
        facts=facts,
    )


def _facts(
    paged: PagedModel,
    layout: Layout,
    pairs: Sequence[LayerPairs],
    texts: Texts,
    namespace: bytes,
) -> list[Fact]:
    near = stored_kv(paged, [*texts.near, *texts.text], len(texts.near))
    far = stored_kv(paged, [*texts.far, *texts.text], len(texts.far))
    turned = [
        TurnedKeys(near[kind.layers[0]].key, rotary)
        for kind in pairs
        if (rotary := layout.rotary(kind.layers[0])) is not None
    ]
    text, room = texts.text, min(paged.max_model_len, FARTHEST)
    home = len(texts.near)
    pair = Pair(query=home + 8, key=home)
    shifts = _distances(room - pair.query - 2)
    deltas = [-home, *_distances(room - home - len(text))]
    facts = [
        scores_depend_on_distance(paged, (text[8], text[0]), pair, shifts),
        same_text_at_two_positions(layout, texts, near, far, namespace),
        first_layer_moves(paged, layout.rotary(0), text, home, deltas),
    ]
    if turned:  # a model without any rotation has nothing to turn
        steps = [(1, 1), (room // 4, room // 2), (-(room // 3), room // 2)]
        facts[:0] = [rotations_add(turned, steps), query_turns_instead(turned, deltas)]
    return facts


def _distances(most: int) -> list[int]:
    """Near, middling and as far as there is room, in tokens."""
    return sorted({min(distance, most) for distance in (1, 100, 1000, 16384, most)})


def _texts(paged: PagedModel, tokenizer: Tokenizer | None) -> Texts:
    """Whole blocks, and no more than the shortest contexts hold (LongRoPE's first regime)."""
    room = paged.max_model_len // BLOCK_SIZE
    blocks = 4 if room >= 16 else 1
    lengths = (blocks, 1, min(room - blocks, 12))
    if lengths[2] <= lengths[1]:
        raise ModelError(
            f"The context of this model, {paged.max_model_len} tokens, has no room for one text at "
            f"two positions; at least {3 * BLOCK_SIZE} are needed.",
            hint="Choose a model with a longer context.",
        )
    sources = (TEXT, NEAR, FAR)
    return Texts(
        *(
            _tokens(paged, tokenizer, source, number * BLOCK_SIZE)
            for source, number in zip(sources, lengths, strict=True)
        )
    )


def _tokens(paged: PagedModel, tokenizer: Tokenizer | None, text: str, length: int) -> list[int]:
    """`text` over and over; without a tokenizer ids that depend on it."""
    if tokenizer is None:
        return [(len(text) + 7919 * i) % paged.vocab_size for i in range(length)]
    ids = tokenizer.encode(text, add_special_tokens=False)
    return (ids * -(-length // len(ids)))[:length]
