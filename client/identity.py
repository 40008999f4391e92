"""Who a producer is to the brokers: the producer id and epoch under which it numbers its batches.

A partition remembers of each producer id the epoch, the last sequence and the last five batches.
A batch of a lower epoch than the last is refused there: that fences off whoever still uses it, and
copies of older batches that are still on their way. A higher epoch begins at sequence 0.
"""

from typing import Final, NamedTuple, Self

from client.brokers import Brokers
from client.errors import check
from client.rights import Right, on_topic
from wire.acls import Operation
from wire.batch import NO_PRODUCER
from wire.messages import init_producer_id
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

LAST_EPOCH: Final = 2**15 - 1


class Identity(NamedTuple):
    """Under which a producer numbers its batches. A newer epoch of the same id fences it off."""

    producer_id: int
    epoch: int

    def next_epoch(self) -> Self | None:
        """The same producer, one epoch later; None after the last."""
        return None if self.epoch >= LAST_EPOCH else self._replace(epoch=self.epoch + 1)


NOBODY: Final = Identity(NO_PRODUCER, -1)


def take_identity(brokers: Brokers, topic: str = "") -> Identity:
    """A producer id that nobody had before, to write to the topic; without one, to any."""
    needs = to_be_numbered(brokers.who, topic)
    request = InitProducerIdRequest()
    return brokers.persist(
        lambda: identity_of(brokers.call_any(init_producer_id.API, request), needs)
    )


def to_be_numbered(who: str, topic: str = "") -> Right:
    """Whoever may write to some topic gets a producer id. So it was not before Apache Kafka 2.8:
    there it takes IDEMPOTENT_WRITE on the cluster."""
    return on_topic(who, topic, Operation.WRITE)


def identity_of(answer: InitProducerIdResponse, needs: Right) -> Identity:
    """What InitProducerId was answered with; raises `Refused` if that is an error."""
    check(answer.error_code, "producer id", needs=needs)
    return Identity(answer.producer_id, answer.producer_epoch)
