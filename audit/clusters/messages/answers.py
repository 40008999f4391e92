"""The JSON answers of `/api/v1/messages`."""

from enum import StrEnum

import msgspec


class MessageKind(StrEnum):
    """How a message is shown, or what replaces it."""

    EVENT = "event"  # decoded by its schema
    DEAD = "dead"  # likewise, a dead letter
    TEXT = "text"  # UTF-8 without a schema
    BYTES = "bytes"  # shown in hexadecimal
    EMPTY = "empty"  # a key without a value
    GAP = "gap"  # no message: compaction, or a transaction
    DAMAGED = "damaged"  # a batch whose CRC is wrong
    LONG = "long"  # a batch that is longer than the audit reads


class ShownField(msgspec.Struct, frozen=True):
    name: str
    text: str


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or a replacement for the messages at offsets `offset` to `end`, exclusive. Unknown
    values are -1 or empty."""

    offset: int
    end: int
    kind: MessageKind
    time: int = -1  # of the record, in milliseconds
    host: str = ""  # from here to `position`: of the event's header
    app: str = ""
    source: str = ""
    path: str = ""  # of the source, as its agent named it
    seq: int = -1
    position: int = -1
    schema_id: int = -1
    size: int = -1  # bytes of the value, or of the batch
    key: str = ""
    headers: list[ShownField] = []  # of the record
    fields: list[ShownField] = []  # of the event
    text: str = ""  # of the value, if it is not an event
    cut: bool = False  # only a part is shown
    remark: str = ""  # why it is not decoded, or its fault


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """The messages at offsets `from_offset` to `to_offset`, exclusive, of one partition, whose log
    spans `first` to `end`, exclusive."""

    cluster: str
    topic: str
    topic_id: str
    partition: int
    partitions: int
    first: int
    end: int
    from_offset: int
    to_offset: int
    items: list[ShownMessage]
