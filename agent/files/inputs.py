"""What following needs to know of an input, and where it begins with a file."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from agent.config_inputs import Input

_LOOK_BACK: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class FileInput:
    """Files of one kind."""

    name: str
    topic: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    start: str = "beginning"
    ignore_older: float = 0.0

    @classmethod
    def of(cls, each: Input) -> Self:
        return cls(each.label, each.topic, each.paths, each.exclude, each.start, each.ignore_older)

    def starts_at_end(self, mtime: float) -> bool:
        """Of a file that was there before the input. A date means: what was written before it is
        not wanted, a file that was touched since is read whole. Without a zone it is UTC."""
        if self.start in {"beginning", "end"}:
            return self.start == "end"
        since = datetime.fromisoformat(self.start)
        if since.tzinfo is None:
            since = since.replace(tzinfo=UTC)
        return mtime < since.timestamp()

    def is_too_old(self, mtime: float, wall: float) -> bool:
        return 0 < self.ignore_older < wall - mtime


def end_of_last_line(fd: int, size: int) -> int:
    """Where the last line that is complete ends, so that a half one is read whole when it is."""
    start = max(0, size - _LOOK_BACK)
    block = os.pread(fd, size - start, start)
    after = block.rfind(b"\n") + 1
    if not after:
        return size
    end = start + after
    if end % 2 and block[after : after + 1] == b"\0":
        end += 1  # UTF-16, little-endian
    return end
