"""How far an agent has come in its history of names: what its journal says of it."""

from dataclasses import dataclass
from typing import Final, NamedTuple


class Pending(NamedTuple):
    """Something whose first event has this number, and of which it is not settled yet whether
    anybody looked at it; it had not come yet at `since`, in milliseconds."""

    number: int
    since: int


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """Events below `number` have had their consequences, and these are in the journal; but for
    those of what is pending. `inputs` are the names of those whose folders were all watched."""

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
