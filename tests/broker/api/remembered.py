"""The administration log of a broker under test, as somebody reads it who follows it."""

import time
from collections.abc import Callable
from pathlib import Path

from ground.administration import Entry, read_entry
from ground.administration_log import FILE_NAME

_PATIENCE = 30.0


class RememberedChanges:
    """What has come since it was made."""

    def __init__(self, data_dir: str) -> None:
        self._path = Path(data_dir) / FILE_NAME
        self._from = self._path.stat().st_size

    def since(self) -> list[Entry]:
        with self._path.open("rb") as file:
            file.seek(self._from)
            return [read_entry(line) for line in file if line.endswith(b"\n")]

    def one(self, is_it: Callable[[Entry], bool]) -> Entry:
        """The only one that is it; waits for the first."""
        deadline = time.monotonic() + _PATIENCE
        while not (found := [each for each in self.since() if is_it(each)]):
            assert time.monotonic() < deadline, self.since()
            time.sleep(0.005)
        (only,) = found
        return only
