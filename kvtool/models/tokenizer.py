"""Text to token ids and back, by the model's own tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kvtool.errors import ConfigError, InputError, ModelError
from kvtool.models.chat import Message, normalized, render_checked
from kvtool.models.control_tokens import ControlTokens
from kvtool.models.digest import tokenizer_digest

_log = logging.getLogger(__name__)


class Tokenizer:
    """`backend`: a fast tokenizer of transformers; `digest`: identity of its files."""

    def __init__(self, backend: Any, digest: str) -> None:
        self._backend = backend
        self._fast = backend.backend_tokenizer
        self._fast.no_truncation()  # some files carry a limit of their own, and it is silent
        self._fast.no_padding()
        self.digest = digest
        self.vocab_size = len(backend)
        self.eos_id: int | None = backend.eos_token_id
        self.bos_id: int | None = backend.bos_token_id

    @property
    def has_chat_template(self) -> bool:
        template = self._backend.chat_template
        return "default" in template if isinstance(template, dict) else template is not None

    @cached_property
    def added_bos_id(self) -> int | None:
        """BOS, where `encode` puts it in front of every text."""
        first = self._fast.encode("a", add_special_tokens=True).ids[:1]
        return self.bos_id if first == [self.bos_id] else None

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Control tokens in `text` become control tokens; BOS comes once, whoever wrote it."""
        text = well_formed(text)
        ids = list(self._fast.encode(text, add_special_tokens=add_special_tokens).ids)
        if add_special_tokens and self.bos_id is not None and ids[:2] == [self.bos_id] * 2:
            _log.warning("The text begins with the BOS token, which the tokenizer adds; kept once.")
            return ids[1:]
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return str(self._fast.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """The text of a conversation; to get its ids, call `encode_chat`, not `encode`.

        Raises `ConfigError` without a template, `InputError` for a message that the template
        refuses, `ModelError` for a template that is no template.
        """
        return self.control.unmark(self._render_marked(messages, add_generation_prompt))

    def encode_chat(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        behind: str = "",
    ) -> list[int]:
        """Ids of the rendered text behind its beginning `behind`, tokenised whole.

        A control token inside a message is plain text: it cannot end a turn or open another.
        """
        marked = self._render_marked(messages, add_generation_prompt)
        assert self.control.unmark(marked).startswith(behind)
        return self.control.encode(self.control.behind(marked, len(behind)))

    def chat_beginning(self, messages: Sequence[Message]) -> tuple[str, list[int]]:
        """The rendered text up to the end of the last message, and its ids: how every conversation
        begins in which more text follows there.

        A template may treat text by what comes behind it (strip it, for one). So two endings are
        rendered, and what they have in common is taken.
        """
        marked, other = (self._render_marked(messages, True, ending) for ending in "01")
        shared = next((i for i, (a, b) in enumerate(zip(marked, other)) if a != b), len(marked))
        marked = marked[:shared]
        return self.control.unmark(marked), self.control.encode(marked)

    def render_marked(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """`render` with the tools in the prompt, and with control tokens of the messages marked:
        `control` encodes it. Raises what `render` raises."""
        return self._render_marked(messages, add_generation_prompt, tools=tools)

    def template_mentions(self, word: str) -> bool:
        return self.has_chat_template and word in str(self._backend.chat_template)

    def _render_marked(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        ending: str = "",
        tools: Sequence[Message] = (),
    ) -> str:
        """ending: more text of the last message; never part of a control token."""
        if not self.has_chat_template:
            raise ConfigError(
                "The model has no chat template, so roles cannot be rendered.",
                hint="Add --raw to join the contents by blank lines.",
            )

        schemas = self.control.mark(list(tools)) or None

        def render(conversation: list[Message]) -> str:
            return str(
                self._backend.apply_chat_template(
                    conversation,
                    tools=schemas,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                )
            )

        *earlier, last = self.control.mark(normalized(messages))
        marked = [*earlier, {**last, "content": last["content"] + ending}]
        return well_formed(render_checked(render, marked))

    @cached_property
    def control(self) -> ControlTokens:
        return ControlTokens(self._fast)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Raises `ModelError` when the folder's tokenizer is missing, damaged or not a fast one."""
    from transformers import AutoTokenizer

    try:
        backend = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        digest = tokenizer_digest(folder)
    except Exception as error:
        reason = f"{' '.join(str(error).split()) or type(error).__name__:.400}"
        raise ModelError(f"{folder}: its tokenizer cannot be loaded: {reason}") from error
    if not hasattr(backend, "backend_tokenizer"):
        raise ModelError(
            f"{folder}: its tokenizer {type(backend).__name__} is not a fast one.",
            hint="Convert it to tokenizer.json with transformers.",
        )
    return Tokenizer(backend, digest)


def check_token_ids(ids: Sequence[object], vocab_size: int) -> list[int]:
    """The ids as a list; raises `InputError` with index and value of the first that is none."""
    for index, token_id in enumerate(ids):
        if type(token_id) is not int or not 0 <= token_id < vocab_size:
            raise InputError(
                f"Token id at index {index} is {token_id!r}; allowed: 0 to {vocab_size - 1}."
            )
    return list(ids)  # type: ignore[arg-type]


def well_formed(text: str) -> str:
    """Lone surrogates, which no encoding can carry, become U+FFFD, with a warning."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        _log.warning(
            "The text holds a lone surrogate at character %d; it becomes U+FFFD.", error.start
        )
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
