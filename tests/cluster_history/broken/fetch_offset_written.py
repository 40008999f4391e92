"""A follower asks for what follows the last offset that it has written, flushed or not (R2)."""

from collections.abc import Callable

from broker.partition import Partition
from broker.replication.copied_partition import CopiedPartition
from client.asking import Wanted
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of


@in_place_of(CopiedPartition, "wanted")
def _wanted(
    before: Callable[[CopiedPartition, int], Wanted], copied: CopiedPartition, max_bytes: int
) -> Wanted:
    log = copied.partition.log
    end = log.end_offset
    epoch = log.epochs.epoch_for(end - 1) if end > log.start_offset else -1
    return before(copied, max_bytes)._replace(offset=end, last_epoch=epoch)


@in_place_of(Partition, "flushed_copy")
async def _flushed_copy(_: object, partition: Partition) -> None:
    partition.flush()


if __name__ == "__main__":
    main()
