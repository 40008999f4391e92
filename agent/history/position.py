"""How far an agent has come in its history of names: what its journal says of it."""

from typing import Final, NamedTuple

import msgspec


class Pending(NamedTuple):
    """A file or folder whose first event has this number, and that may not have been opened yet.
    It did not exist at `since`, in milliseconds."""

    number: int
    since: int


class HistoryPosition(msgspec.Struct, frozen=True):
    """Events below `number` have had their consequences, and these are in the journal; but for
    those of what is pending. `inputs` names the inputs all of whose folders were watched."""

    epoch: str
    number: int
    pending: tuple[Pending, ...] = ()
    inputs: tuple[str, ...] = ()

    @property
    def needed_from(self) -> int:
        """The first event that a successor has to read."""
        return min([self.number, *(each.number for each in self.pending)])


MOST_PENDING: Final = 1_000
"""With more than these the position stays where it was, until they are fewer."""
