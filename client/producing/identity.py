"""A producer's identity: the producer id and epoch under which it numbers its batches.

A partition remembers the epoch, the last sequence and the last five batches of each producer id. It
refuses batches of older epochs, which fences off other users of the id and delayed copies of old
batches. A new epoch begins at sequence 0.
"""

from typing import Final, NamedTuple, Self

from client.connection.brokers import Brokers
from client.errors import check
from client.rights import Right, on_topic
from wire.acls import Operation
from wire.messages import init_producer_id
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.record_batches.batch import NO_PRODUCER

LAST_EPOCH: Final = 2**15 - 1


class Identity(NamedTuple):
    """A producer id and epoch. A newer epoch of the same id fences off older ones."""

    producer_id: int
    epoch: int

    def next_epoch(self) -> Self | None:
        """Returns the same producer id with the next epoch; None after the last."""
        return None if self.epoch >= LAST_EPOCH else self._replace(epoch=self.epoch + 1)


NOBODY: Final = Identity(NO_PRODUCER, -1)


def take_identity(brokers: Brokers, topic: str = "") -> Identity:
    """Allocates a new producer id for writing to the topic; without a topic, to any topic."""
    needs = to_be_numbered(brokers.who, topic)
    request = InitProducerIdRequest()
    return brokers.persist(
        lambda: identity_of(brokers.call_any(init_producer_id.API, request), needs)
    )


def to_be_numbered(who: str, topic: str = "") -> Right:
    """Returns WRITE on the topic, the right that a producer id requires. Apache Kafka before 2.8
    requires IDEMPOTENT_WRITE on the cluster instead."""
    return on_topic(who, topic, Operation.WRITE)


def identity_of(answer: InitProducerIdResponse, needs: Right) -> Identity:
    """Returns the identity in an InitProducerId response; raises `Refused` for an error."""
    check(answer.error_code, "producer id", needs=needs)
    return Identity(answer.producer_id, answer.producer_epoch)
