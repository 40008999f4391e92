"""Recreates topics that were just deleted, under the same name."""

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.connection.metadata import TopicMetadata
from client.errors import Refused
from harness.processes.waiting import wait_until
from wire.errors import ErrorCode


def create_again(
    brokers: Brokers, name: str, *, partitions: int = 1, after: TopicMetadata | None = None
) -> TopicMetadata:
    """Creates a topic of the same name as one just deleted. Retries, since Kafka rejects the name
    until the deletion is complete.

    If another client may ask for the topic meanwhile, which creates it, pass the deleted one as
    `after`.
    """
    new_topics: list[TopicMetadata] = []

    def is_created() -> bool:
        try:
            new_topics.append(admin.create_topic(brokers, name, partitions=partitions))
        except Refused as refused:
            if refused.code is not ErrorCode.topic_already_exists:
                raise
            metadata = brokers.refresh([name])
            if after is not None and metadata.has(name) and metadata.topics[name].id != after.id:
                new_topics.append(brokers.topic(name))
        return bool(new_topics)

    wait_until(is_created, within=60, what=f"{name} can be created again")
    return new_topics[0]
