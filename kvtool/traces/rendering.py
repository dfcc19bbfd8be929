"""What turns prompts and replies into token ids, and what it needs of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kvtool.traces.prepared import Segment, Symbols
from kvtool.traces.trace_request import ChatPrompt, Json, TextPrompt


class Rendered(NamedTuple):
    """segments: tile the symbols of a chat; () for plain text."""

    symbols: Symbols
    segments: tuple[Segment, ...] = ()


class Rendering(Protocol):
    """name: as reports give it. limits: what figures from it cannot say, "" where they are the
    model's own. Texts that cannot be rendered raise `InputError`."""

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> str: ...

    def prompt(self, prompt: ChatPrompt | TextPrompt) -> Rendered:
        """The prompt as the model gets it, up to where the model's reply begins."""
        ...

    def reply(self, prompt: ChatPrompt | TextPrompt, reply: Json | str) -> Symbols:
        """The reply as the model wrote it: thinking and the token that ends its turn included."""
        ...

    def decode(self, symbols: Sequence[int] | Symbols) -> str: ...


class Tokenizer(Protocol):
    """limits: see `Rendering`. encode: int32 ids of a text."""

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> str: ...

    def encode(self, text: str) -> Symbols: ...

    def decode(self, ids: Sequence[int] | Symbols) -> str: ...


class Part(NamedTuple):
    """Rendered text that is tokenised for itself. control: how many of its first characters are
    the control token that it begins with."""

    text: str
    control: int


class EncodedPart(NamedTuple):
    """ids: int32 [n]. starts: int64 [n], the character of the part at which each token begins."""

    ids: Symbols
    starts: Symbols


class ChatTokenizer(Tokenizer, Protocol):
    """A model's tokenizer with its chat template. Control tokens inside of messages are text."""

    def render(
        self, messages: Sequence[Json], tools: Sequence[Json], *, add_generation_prompt: bool
    ) -> str: ...

    def parts(self, rendered: str) -> list[Part]:
        """Cut before each control token: no token reaches over one."""
        ...

    def encode_part(self, part: str) -> EncodedPart: ...
