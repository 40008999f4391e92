"""The part of an input's configuration that is needed to follow its files, and the files
`inputs.json` and `archives.json`.

`inputs.json` in the data directory lists the inputs that were followed before, and since when:
`start` no longer applies to them, and a journal that has lost its end may not have their first
scan. An input is added once its first scan is in the journal; an agent that was killed before that
scans it as new again. If the file is damaged, inputs are known by their sources. `archives.json`
lists the inputs that read archives in the same way: of older archives the journal knows nothing.
"""

import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from agent.configuration.inputs import Archives, Input
from agent.configuration.system_journal import spool_path
from ground.files.durable_files import replace_file

_LOOK_BACK: Final = 64 * 1024


class FileInput(msgspec.Struct, frozen=True):
    """The files of an input, and where to start in them."""

    name: str
    topic: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    start: str = "beginning"
    ignore_older: float = 0.0
    reads_archives: bool = False
    max_archive_bytes: int = 1 << 36

    @classmethod
    def of(cls, input_: Input, data_dir: str = "") -> Self:
        """`data_dir` has the files of journal inputs, which are read from their beginning."""
        if input_.journal is not None:
            return cls(input_.label, input_.topic, (spool_path(data_dir, input_.label),))
        return cls(
            input_.label,
            input_.topic,
            input_.paths,
            input_.exclude,
            input_.start,
            input_.ignore_older,
            input_.archives is Archives.READ,
            input_.max_archive_bytes,
        )

    def starts_at_end(self, mtime: float) -> bool:
        """Whether reading starts at the end of a file that existed before the input. If `start` is
        a date, only files last written before that date start at their end; others are read whole.
        A date without a time zone is in UTC."""
        if self.start in {"beginning", "end"}:
            return self.start == "end"
        start_date = datetime.fromisoformat(self.start)
        if start_date.tzinfo is None:
            start_date = start_date.replace(tzinfo=UTC)
        return mtime < start_date.timestamp()

    def is_too_old(self, mtime: float, wall: float) -> bool:
        return 0 < self.ignore_older < wall - mtime


def end_of_last_line(fd: int, size: int) -> int:
    """The end of the last complete line, so that an incomplete line is read whole later."""
    start = max(0, size - _LOOK_BACK)
    block = os.pread(fd, size - start, start)
    line_end = block.rfind(b"\n") + 1
    if not line_end:
        return size
    end = start + line_end
    if end % 2 and block[line_end : line_end + 1] == b"\0":
        end += 1  # UTF-16, little-endian
    return end


_FILE: Final = "inputs.json"
ARCHIVES_FILE: Final = "archives.json"


def read_inputs(directory: Path, file: str = _FILE) -> dict[str, int] | None:
    """Returns when each input was first followed (milliseconds since 1970, 0 if unknown), by name;
    None if the file is damaged."""
    try:
        inputs = json.loads((directory / file).read_text(encoding="utf-8"))
        if isinstance(inputs, list):  # as Penstock 0.1 wrote it
            inputs = dict.fromkeys(inputs, 0)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(inputs, dict):
        return None
    is_valid = all(
        isinstance(name, str) and type(since_millis) is int for name, since_millis in inputs.items()
    )
    return inputs if is_valid else None


def write_inputs(
    directory: Path, names: Collection[str], now_millis: int, file: str = _FILE
) -> None:
    """Updates the file to these inputs: new ones are recorded as followed since `now_millis`. If it
    raises OSError, the file is unchanged."""
    previous_inputs = read_inputs(directory, file)
    inputs = {name: (previous_inputs or {}).get(name, now_millis) for name in sorted(names)}
    if previous_inputs == inputs:
        return
    replace_file(directory / file, json.dumps(inputs).encode())
