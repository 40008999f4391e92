"""Who a producer is to the brokers: the producer id and epoch under which it numbers its batches.

A partition remembers of each producer id the epoch, the last sequence and the last five batches.
A batch of a lower epoch than the last is refused there: that fences off whoever still uses it, and
copies of older batches that are still on their way. A higher epoch begins at sequence 0.
"""

from typing import Final, NamedTuple, Self

from client.brokers import Brokers
from client.errors import check
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


def take_identity(brokers: Brokers) -> Identity:
    """A producer id that nobody had before."""
    return brokers.persist(
        lambda: identity_of(brokers.call_any(init_producer_id.API, InitProducerIdRequest()))
    )


def identity_of(answer: InitProducerIdResponse) -> Identity:
    """What InitProducerId was answered with; raises `Refused` if that is an error."""
    check(answer.error_code, "producer id")
    return Identity(answer.producer_id, answer.producer_epoch)
