"""A follower does not say the epoch of its last batch, and keeps what the leader does not have
(R8)."""

from collections.abc import Callable

from broker.replication.copied_partition import CopiedPartition
from client.asking import Wanted
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of


@in_place_of(CopiedPartition, "wanted")
def _wanted(
    before: Callable[[CopiedPartition, int], Wanted], copied: CopiedPartition, max_bytes: int
) -> Wanted:
    return before(copied, max_bytes)._replace(last_epoch=-1)


if __name__ == "__main__":
    main()
