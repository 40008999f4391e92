"""What following needs to know of an input: where it begins with a file, and since when.

Which inputs were followed before, and since when, is in one small file in the data directory: what
`start` says is not for them any more, and a journal that has lost its end may not know that anybody
looked at them. It is written when the first look at an input's files is in the journal. An agent
that was killed before that looks at them as if for the first time again. If the file is damaged,
inputs that have sources are known by those.
"""

import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from agent.config_inputs import Input
from ground.durable_files import replace_file

_LOOK_BACK: Final = 64 * 1024


class FileInput(msgspec.Struct, frozen=True):
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


_FILE: Final = "inputs.json"


def read_inputs(directory: Path) -> dict[str, int] | None:
    """By name, milliseconds since 1970, 0 if that is not known; None if what is there cannot be
    understood."""
    try:
        inputs = json.loads((directory / _FILE).read_text(encoding="utf-8"))
        if isinstance(inputs, list):  # as Penstock 0.1 wrote it
            inputs = dict.fromkeys(inputs, 0)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(inputs, dict):
        return None
    are_sound = all(isinstance(name, str) and type(at) is int for name, at in inputs.items())
    return inputs if are_sound else None


def write_inputs(directory: Path, names: Collection[str], now_millis: int) -> None:
    """Those that are new are followed since now. Raises OSError; what stood there before stands
    then."""
    before = read_inputs(directory)
    inputs = {each: (before or {}).get(each, now_millis) for each in sorted(names)}
    if before == inputs:
        return
    replace_file(directory / _FILE, json.dumps(inputs).encode())
