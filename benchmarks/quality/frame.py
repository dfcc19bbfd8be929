"""What stands around the texts of a prompt: BOS, the chat template's turns, separators."""

from __future__ import annotations

from kvtool.errors import InputError
from kvtool.models.tokenizer import Tokenizer

Tokens = tuple[int, ...]
_CONTENT = "\x00"


class Frame:
    """bos: what the tokenizer puts in front of every text; tail: what ends the user's turn."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.bos: Tokens = tuple(tokenizer.encode(""))
        self.seam = self.tokens("\n\n")
        self.tail = self.tokens(self._around("")[1])

    def tokens(self, text: str) -> Tokens:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def head(self, system: str) -> Tokens:
        """A system prompt and the opening of the user's turn, without BOS."""
        tokens = self.tokens(self._around(system)[0])
        return tokens[len(self.bos) :] if tokens[: len(self.bos)] == self.bos else tokens

    def _around(self, system: str) -> tuple[str, str]:
        """The text in front of the user's content and behind it; plain where no template is."""
        if not self._tokenizer.has_chat_template:
            return f"{system}\n\n", "\n\n"
        user = {"role": "user", "content": _CONTENT}
        try:
            text = self._tokenizer.render([{"role": "system", "content": system}, user])
        except InputError:  # a template without a system role
            text = self._tokenizer.render([{**user, "content": f"{system}\n\n{_CONTENT}"}])
        before, _, behind = text.partition(_CONTENT)
        return before, behind
