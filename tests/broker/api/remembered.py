"""The administration log of a broker under test, as somebody reads it who follows it."""

from collections.abc import Callable
from pathlib import Path

from ground.administration.entries import Entry, read_entry
from ground.administration.log import FILE_NAME
from harness.processes.waiting import wait_until


class RememberedChanges:
    """What has come since it was made."""

    def __init__(self, data_dir: str) -> None:
        self._path = Path(data_dir) / FILE_NAME
        self._from = self._path.stat().st_size

    def since(self) -> list[Entry]:
        with self._path.open("rb") as file:
            file.seek(self._from)
            return [read_entry(line) for line in file if line.endswith(b"\n")]

    def some(self, count: int, is_it: Callable[[Entry], bool]) -> list[Entry]:
        """Those that are it, once there are so many."""

        def found() -> list[Entry]:
            entries = [each for each in self.since() if is_it(each)]
            return entries if len(entries) >= count else []

        return wait_until(found, what=f"{count} entries")

    def one(self, is_it: Callable[[Entry], bool]) -> Entry:
        """The only one that is it."""
        (only,) = self.some(1, is_it)
        return only
