"""Messages put into a topic and taken out again by librdkafka, as bytes."""

from collections.abc import Sequence

from tests.system.clients.interface import Record
from tests.system.clients.librdkafka import Librdkafka


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    """Into a topic that is created if need be; returns when the broker has them."""
    Librdkafka().produce(bootstrap, topic, 0, [Record(value) for value in values])


def receive(bootstrap: str, topic: str, count: int) -> Sequence[bytes]:
    """The first so many."""
    consumed = Librdkafka().consume(bootstrap, topic, 0, "beginning", count)
    values = [each.record.value for each in consumed]
    assert None not in values
    return [value for value in values if value is not None]
