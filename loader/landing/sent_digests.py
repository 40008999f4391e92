"""Computes the digests of batches as their agents have sent them.

A batch is stored as it was sent, but for fields that its digest does not cover. The exception is
`message.timestamp.type=LogAppendTime`: the broker sets a bit of the attributes, and the time of the
whole batch. Both are undone here, since the records keep their own times. So this bit cannot hide
that anything else was altered.
"""

import struct
from typing import Final

from ledger.passage_digests import digest_of_batch
from wire.errors import BatchError
from wire.record_batches.batch import CRC_START, LOG_APPEND_TIME, BatchHeader
from wire.record_batches.records import records

_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


def digest_as_sent(header: BatchHeader, data: memoryview) -> bytes:
    """Returns the digest of a batch, which begins with its base offset."""
    return digest_of_batch(_with_own_time(header, data) if header.is_append_time else data)


def _with_own_time(header: BatchHeader, data: memoryview) -> bytearray | memoryview:
    sent = bytearray(data)
    _ATTRIBUTES.pack_into(sent, CRC_START, header.attributes & ~LOG_APPEND_TIME)
    try:
        latest_time = max(record.timestamp for record in records(bytes(sent)))
        _MAX_TIMESTAMP.pack_into(sent, _MAX_TIMESTAMP_AT, latest_time)
    except (BatchError, ValueError, struct.error):
        return data  # no agent has sent it
    return sent
