"""Rejects requests that h11 accepts but a proxy may parse differently: h11 also ends lines at a
bare LF, both in heads and in the sizes and trailers of chunked bodies.

h11 does not expose its position in a body. Its last event tells: after a request, or the end of a
chunk, the line of a size follows. h11 takes that line from its buffer once it is complete, and the
trailers once all of them are.
"""

import re
from typing import Final

import h11

from ground.http.heads import AmbiguousHead, check_head

# h11 may have taken a part of the CR LF after a chunk's data already.
_SIZE_LINE: Final = re.compile(rb"(?:\r?\n)?+((0+(?![0-9a-f]))?[^\n]*\r\n)", re.IGNORECASE)
_LAST_CHUNK: Final = b"0\r\n"


class StrictRequests(h11.Connection):
    """The parser of one connection. `next_event` raises h11.RemoteProtocolError."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=most_bytes)
        self._before_size = False
        self._in_trailers = False

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            self._check()
        except AmbiguousHead as error:
            raise h11.RemoteProtocolError(str(error)) from None
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._before_size = any(name == b"transfer-encoding" for name, _ in event.headers)
        elif isinstance(event, h11.Data):
            self._before_size = event.chunk_end
        elif isinstance(event, h11.EndOfMessage):
            self._before_size = self._in_trailers = False
        return event

    def _check(self) -> None:
        if self.their_state is h11.IDLE:
            check_head(self.trailing_data[0])
        elif self._in_trailers:
            check_head(_LAST_CHUNK + self.trailing_data[0])
        elif self._before_size and (size := _SIZE_LINE.match(self.trailing_data[0])):
            self._before_size, self._in_trailers = False, size[2] is not None
            rest = self.trailing_data[0][size.end() :] if self._in_trailers else b"\r\n"
            check_head(size[1] + rest)
