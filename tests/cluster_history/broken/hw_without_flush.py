"""A leader counts what it has written of its own log, flushed or not (R3)."""

from collections.abc import Callable

from broker.partition import Committed, Partition
from broker.storage.log import Log
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of


@in_place_of(Log, "_expose")
def _expose(_: object, log: Log) -> None:
    offset = int(min(log._replicated, log.end_offset))
    if offset > log.exposed_offset:
        log.exposed_offset = offset
        log._reader.expose_before(offset)


@in_place_of(Partition, "when_committed")
def _when_committed(
    before: Callable[[Partition, int, Committed], None],
    partition: Partition,
    end_offset: int,
    callback: Committed,
) -> None:
    partition._commit()
    before(partition, end_offset, callback)
    partition.flush()


if __name__ == "__main__":
    main()
