"""A topic for a test of its own."""

from collections.abc import Iterator

import pytest

from harness.registry_process import RegistryProcess
from schemas.registry_client import RegistryClient
from tests.penstock.running import At
from tests.penstock.topics.avro_files.event_topic import EventTopic


@pytest.fixture
def topic(at: At, running_registry: RegistryProcess, new_topic: str) -> Iterator[EventTopic]:
    at.output("topics", "create", new_topic)
    with RegistryClient(running_registry.url) as client:
        yield EventTopic(new_topic, at, client, running_registry.url)
