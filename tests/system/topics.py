"""Topics for tests, made through librdkafka's admin client."""

from collections.abc import Mapping

from harness.processes.waiting import wait_until
from tests.system.clients.librdkafka import LibrdkafkaAdmin


def create(
    bootstrap: str, topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """A topic that is listed, with all its partitions, when this returns."""
    admin = LibrdkafkaAdmin()
    admin.create_topic(bootstrap, topic, partitions, configs or {})
    wait_until(
        lambda: admin.topics(bootstrap).get(topic) == partitions,
        within=10,
        what=f"{topic} is listed",
    )
