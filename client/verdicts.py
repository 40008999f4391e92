"""What an answer to Produce says about the batch: the error codes, by what follows from them.

    TAKEN           it is in the log, now or since an earlier sending
    AGAIN           this sending failed, the next may succeed: sent again, with the same numbers
    OUT_OF_ORDER    its sequence is not the next one. Behind a batch that failed that is a matter of
                    course; of the first it says that the broker knows other batches than we
    OPEN            whoever numbers its batches like this is unknown, or fenced off, or the broker
                    does not know itself what it did
    REFUSED         this sending wrote nothing, and no other will

Codes that are not named are AGAIN if Kafka calls them retriable, and REFUSED if not.
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
"""The partition is led by another broker, or by none: metadata is out of date."""

FENCED: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
"""Somebody else has a newer epoch: the next of ours may be theirs, only another id helps."""

NOTHING_WRITTEN: Final = frozenset({ErrorCode.not_enough_replicas, ErrorCode.corrupt_message})
"""AGAIN, and decided before anything was written. Others may be said of a batch that was written
and then could not be flushed, or not be replicated in time, or not by this leader."""


def verdict(code: ErrorCode) -> ErrorVerdict:
    if code in _NAMED:
        return _NAMED[code]
    return ErrorVerdict.AGAIN if code.retriable else ErrorVerdict.REFUSED
