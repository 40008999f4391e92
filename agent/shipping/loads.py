"""A batch between the journal and its acknowledgement, as the shipping thread has it."""

from dataclasses import dataclass

from agent.journal.state import Numbers
from agent.parcels import Cargo, Outgoing
from client.delivery import Batch, Stamped
from client.log_search import Sighting
from client.stamping import stamped


@dataclass(slots=True, eq=False)
class Load:
    """`rank` is the number of the batch that it goes back to, if it took the place of another.

    It has `numbers` from when they are written down until it is certain that the log has nothing
    with them. `taken`: the leader has called it its own without saying where it is. `place` is
    where it lies, once it is acknowledged: the journal is told in order, as what is looked for
    after a crash must not lie before what it calls acknowledged.
    """

    outgoing: Outgoing
    rank: int
    numbers: Numbers | None = None
    taken: bool = False
    place: Sighting | None = None

    @property
    def batch(self) -> Batch:
        return self.outgoing.batch

    def as_sent(self) -> Stamped:
        """Byte for byte, under its numbers."""
        assert self.numbers is not None
        return stamped(self.batch, self.numbers.identity, self.numbers.base_sequence)


def rank_of(load: Load) -> int | None:
    """None for the ledger's, for which nobody waits."""
    return None if load.outgoing.cargo is Cargo.LEDGER else load.rank
