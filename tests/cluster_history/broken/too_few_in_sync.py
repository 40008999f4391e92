"""A leader acknowledges with acks=all whoever is in sync, itself alone if need be (R4)."""

from collections.abc import Callable

from broker.partition import Partition
from broker.topic_config import TopicConfig
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of


@in_place_of(Partition, "configure")
def _configure(
    before: Callable[[Partition, TopicConfig], None], partition: Partition, config: TopicConfig
) -> None:
    before(partition, config)
    partition.min_insync_replicas = 1


if __name__ == "__main__":
    main()
