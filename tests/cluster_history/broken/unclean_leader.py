"""A controller makes any live replica a leader where nobody in sync is alive (R6)."""

from collections.abc import Callable

from broker.controller import elections
from broker.controller.elections import Brokers
from cluster.values import PartitionInfo
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of


@in_place_of(elections, "elected")
def _elected(
    before: Callable[..., PartitionInfo],
    partition: PartitionInfo,
    brokers: Brokers,
    *,
    unclean: bool = False,
) -> PartitionInfo:
    del unclean
    return before(partition, brokers, unclean=True)


if __name__ == "__main__":
    main()
