"""From messages to the token ids of a prompt.

With a chat template, the template's text is tokenised whole; it brings its own BOS, and control
tokens inside a message stay text. With `--raw` the text is the contents joined by blank lines,
control tokens count, and the tokenizer adds what it adds to any text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.cli import output
from kvtool.cli.transcript import KEY, known_ids, plain
from kvtool.errors import InputError
from kvtool.models.chat import Message
from kvtool.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    text: str
    token_ids: list[int]


def render_prompt(
    tokenizer: Tokenizer, messages: Sequence[Message], *, raw: bool, vocab_size: int
) -> RenderedPrompt:
    """Raises `InputError` when there are no tokens, `ConfigError` when a template is missing.

    vocab_size: of the model, which may have more token ids than the tokenizer, or fewer.
    """
    if raw or _is_plain_text(tokenizer, messages):
        text = _joined(messages)
        token_ids = tokenizer.encode(text)
    else:
        text = tokenizer.render(plain(messages))
        token_ids = _encode(tokenizer, messages, text, vocab_size)
    return _not_empty(RenderedPrompt(text, token_ids))


def render_beginning(
    tokenizer: Tokenizer, messages: Sequence[Message], *, raw: bool
) -> RenderedPrompt:
    """How `render_prompt` begins for these messages, whatever text follows in the last of them.

    Its last tokens may come out otherwise there: what follows can be one token with them.
    """
    if raw or _is_plain_text(tokenizer, messages):
        text = _joined(messages)
        return _not_empty(RenderedPrompt(text, tokenizer.encode(text)))
    return _not_empty(RenderedPrompt(*tokenizer.chat_beginning(messages)))


def _joined(messages: Sequence[Message]) -> str:
    return "\n\n".join(message["content"] for message in messages)


def _not_empty(prompt: RenderedPrompt) -> RenderedPrompt:
    if not prompt.token_ids:
        raise InputError("The prompt has no tokens.", hint="Give at least one character of text.")
    return prompt


def _is_plain_text(tokenizer: Tokenizer, messages: Sequence[Message]) -> bool:
    """A single user message needs no template; where there is none, `render` refuses the rest."""
    return not tokenizer.has_chat_template and [m["role"] for m in messages] == ["user"]


def _encode(
    tokenizer: Tokenizer, messages: Sequence[Message], text: str, vocab_size: int
) -> list[int]:
    known = known_ids(tokenizer, messages, text, vocab_size)
    if known is not None:
        return known.token_ids + tokenizer.encode_chat(plain(messages), behind=known.text)
    if any(KEY in message for message in messages):
        output.warn(
            "the stored token ids do not fit this conversation any more (an edited message, "
            "another tokenizer or template); the text is tokenised anew."
        )
    return tokenizer.encode_chat(plain(messages))
