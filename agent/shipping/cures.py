"""Maps errors to cures, for batches that the broker refuses and would refuse again. No error maps
to PROVE, which the queue foresees.

    SPLIT        halves the batch, repeatedly; a single event that is too large is dead-lettered
    CLAMP        sets times outside the topic's range to its bounds; headers keep the original
    DEAD_LETTER  halves the batch until a single event is refused, which is dead-lettered
    REPACK       compresses with gzip, or if that was refused, not at all
    PROVE        signs an entry of the ledger again, since one before it was replaced
    STAND        stops the partition, and retries the next batch every minute, in order

An error without an entry stops the partition, too, so that no line is lost: it needs an operator.
"""

from enum import Enum, auto
from typing import Final

from client.errors import ClientError, ErrorCode, Refused


class Cure(Enum):
    SPLIT = auto()
    CLAMP = auto()
    DEAD_LETTER = auto()
    REPACK = auto()
    PROVE = auto()
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
"""Errors of a batch's numbers: if it is not in the log, it needs new ones."""


def code_of(error: ClientError | None) -> ErrorCode | None:
    return error.code if isinstance(error, Refused) else None


def cure_for(error: ClientError) -> Cure:
    code = code_of(error)
    return Cure.STAND if code is None else _CURES.get(code, Cure.STAND)
