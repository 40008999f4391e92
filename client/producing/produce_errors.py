"""The consequences of error codes in a Produce response.

    TAKEN           it is in the log, now or since an earlier sending
    AGAIN           this sending failed, the next may succeed: repeat with the same numbers
    OUT_OF_ORDER    its sequence is not the next one: a consequence if an earlier batch failed; for
                    the first open batch, the broker knows other batches than the producer
    OPEN            the producer id or epoch is unknown or fenced off, or the broker itself does not
                    know what it did
    REFUSED         this sending wrote nothing, and no other will

Other codes are AGAIN if Kafka calls them retriable, and otherwise REFUSED.
"""

from enum import Enum, auto
from typing import Final

from wire.errors import ErrorCode


class ErrorVerdict(Enum):
    TAKEN = auto()
    AGAIN = auto()
    OUT_OF_ORDER = auto()
    OPEN = auto()
    REFUSED = auto()


_NAMED: Final = {
    ErrorCode.none: ErrorVerdict.TAKEN,
    ErrorCode.duplicate_sequence_number: ErrorVerdict.TAKEN,
    ErrorCode.out_of_order_sequence_number: ErrorVerdict.OUT_OF_ORDER,
    ErrorCode.unknown_producer_id: ErrorVerdict.OPEN,
    ErrorCode.invalid_producer_id_mapping: ErrorVerdict.OPEN,
    ErrorCode.invalid_producer_epoch: ErrorVerdict.OPEN,
    ErrorCode.producer_fenced: ErrorVerdict.OPEN,
    ErrorCode.unknown_server_error: ErrorVerdict.OPEN,
}

MOVED: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
    }
)
"""The partition has another leader, or none: metadata is outdated."""

FENCED: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
"""Another producer has a newer epoch and may use the next one too: only a new id helps."""

NOTHING_WRITTEN: Final = frozenset({ErrorCode.not_enough_replicas, ErrorCode.corrupt_message})
"""AGAIN, and decided before anything was written. After other AGAIN codes the batch may have been
written, but not flushed, or not replicated in time."""


def verdict(code: ErrorCode) -> ErrorVerdict:
    if code in _NAMED:
        return _NAMED[code]
    return ErrorVerdict.AGAIN if code.retriable else ErrorVerdict.REFUSED
