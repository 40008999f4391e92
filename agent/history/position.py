"""The agent's position in its history of names, as journalled."""

from typing import Final, NamedTuple

import msgspec


class Pending(NamedTuple):
    """A file or folder that may not have been opened yet, with the number of its first event. It
    did not exist at `since` (milliseconds)."""

    number: int
    since: int


class HistoryPosition(msgspec.Struct, frozen=True):
    """Events below `number` are processed and their results journalled, except for pending files.
    `inputs` are the names of inputs with all folders watched."""

    epoch: str
    number: int
    pending: tuple[Pending, ...] = ()
    inputs: tuple[str, ...] = ()

    @property
    def needed_from(self) -> int:
        """The first event that a successor has to read."""
        return min([self.number, *(pending.number for pending in self.pending)])


MOST_PENDING: Final = 1_000
"""With more pending files than this, the position does not advance."""
