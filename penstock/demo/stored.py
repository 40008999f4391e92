"""The numbers of the events that the brokers hold, read back from them message by message."""

from collections.abc import Iterator

from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from penstock.demo.arrivals import NO_NUMBER
from penstock.demo.landed import number_of
from penstock.demo.samples import Sample
from schemas.envelope import Decoder
from schemas.errors import BadMessage
from schemas.registry_client import RegistryClient


def stored_numbers(brokers: Brokers, registry: RegistryClient, sample: Sample) -> Iterator[int]:
    """Of each message, as they lie in the topic. ClientError or RegistryError if that fails."""
    decoder = Decoder(registry.schema)
    field = "number" if sample.typed else "message"
    with Consumer(brokers, sample.name, Beginning(), to_end=True) as consumer:
        for message in consumer:
            try:
                event = decoder.decode(message.record.value or b"")
            except BadMessage:
                yield NO_NUMBER
            else:
                yield number_of(event.get(field))
