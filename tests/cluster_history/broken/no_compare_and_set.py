"""A leader that wants others out of those in sync goes by that at once, whatever the map says (R1,
R5)."""

from collections.abc import Callable

from msgspec.structs import replace

from broker.partition import Partition
from broker.replication.in_sync import InSyncChanges
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of


@in_place_of(InSyncChanges, "propose")
def _propose(
    before: Callable[[InSyncChanges, Partition, frozenset[int]], None],
    changes: InSyncChanges,
    partition: Partition,
    in_sync: frozenset[int],
) -> None:
    before(changes, partition, in_sync)
    if partition.followers is not None:
        wished = partition.followers.ordered(in_sync)
        partition.followers.proposed = None
        partition.follow_in_sync(replace(partition.info, isr=wished))


if __name__ == "__main__":
    main()
