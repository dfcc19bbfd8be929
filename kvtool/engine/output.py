"""One request and its text."""

from __future__ import annotations

from kvtool.engine.detokenizer import Decoder, Detokenizer
from kvtool.engine.request import Request
from kvtool.engine.stop import StopMatcher


class TextOutput:
    """Follows a request: `update()` after every step that gave it a token.

    `text` is what came out so far: without the EOS token, cut before the stop string.
    """

    def __init__(self, request: Request, decoder: Decoder) -> None:
        self.request = request
        self.text = ""
        self._detokenizer = Detokenizer(decoder)
        self._matcher = StopMatcher(request.sampling.stop)
        self._num_read = 0
        self._is_flushed = False

    @property
    def is_stopped(self) -> bool:
        """A stop string has come: the request need not go on."""
        return self._matcher.matched is not None

    @property
    def finish_reason(self) -> str | None:
        """length | stop | eos | abort | error; a stop string in the very last token counts as stop."""
        return "stop" if self.is_stopped else self.request.finish_reason

    def update(self) -> str:
        """The text that the request's new ids add; with its end, all that was held back."""
        pieces = [self._matcher.push(self._detokenizer.append(i)) for i in self._new_ids()]
        if self.request.is_finished and not self._is_flushed:
            self._is_flushed = True
            pieces.append(self._matcher.push(self._detokenizer.flush()))
            if not self.is_stopped:
                pieces.append(self._matcher.flush())
        delta = "".join(pieces)
        self.text += delta
        return delta

    def _new_ids(self) -> list[int]:
        ids = self.request.output_ids[self._num_read :]
        self._num_read += len(ids)
        return ids[:-1] if self.request.finish_reason == "eos" and ids else ids
