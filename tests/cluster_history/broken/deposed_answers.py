"""A leader that is deposed tells all who wait that their batches are committed (R9)."""

from collections.abc import Callable

from broker.partition import Partition
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of
from wire.errors import ErrorCode


@in_place_of(Partition, "_turn_away")
def _turn_away(
    before: Callable[[Partition, ErrorCode], None], partition: Partition, _: ErrorCode
) -> None:
    before(partition, ErrorCode.none)


if __name__ == "__main__":
    main()
