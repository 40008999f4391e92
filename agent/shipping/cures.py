"""What is done about a batch that the broker refuses, and would refuse again: one table.

    SPLIT        in halves, again and again; a single event that is too large becomes a dead letter
    CLAMP        times outside what the topic takes are put on the bound; headers keep the original
    DEAD_LETTER  split in halves until it is a single event that is refused: that is a dead letter
    REPACK       compressed as gzip, or if that was refused, not at all
    STAND        the partition stands still, and what is next is tried again every minute, in order

Whatever has no line in the table stands still: somebody must look at it, and no line is lost.
"""

from enum import Enum, auto
from typing import Final

from client.errors import ClientError, ErrorCode, Refused


class Cure(Enum):
    SPLIT = auto()
    CLAMP = auto()
    DEAD_LETTER = auto()
    REPACK = auto()
    STAND = auto()


_CURES: Final = {
    ErrorCode.message_too_large: Cure.SPLIT,
    ErrorCode.record_list_too_large: Cure.SPLIT,
    ErrorCode.invalid_timestamp: Cure.CLAMP,
    ErrorCode.invalid_record: Cure.DEAD_LETTER,
    ErrorCode.unsupported_compression_type: Cure.REPACK,
    ErrorCode.topic_authorization_failed: Cure.STAND,
    ErrorCode.cluster_authorization_failed: Cure.STAND,
    ErrorCode.invalid_topic_exception: Cure.STAND,
    ErrorCode.policy_violation: Cure.STAND,
    ErrorCode.unsupported_for_message_format: Cure.STAND,
}

NUMBERS_REFUSED: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
    }
)
"""What was wrong with a batch are its numbers: if it is not in the log, it needs others."""


def code_of(error: ClientError | None) -> ErrorCode | None:
    return error.code if isinstance(error, Refused) else None


def cure_for(error: ClientError) -> Cure:
    code = code_of(error)
    return Cure.STAND if code is None else _CURES.get(code, Cure.STAND)
