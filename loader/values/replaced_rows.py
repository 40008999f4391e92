"""The rows in files that a rebuild replaces, compared with the offsets that it can read again."""

from collections.abc import Mapping

import msgspec

from client.producing.delivery import TopicPartition

# The offsets from the first to before the second.
Readable = Mapping[TopicPartition, tuple[int, int]]


class PartitionRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one partition in a file."""

    path: str
    partition: TopicPartition
    rows: int
    lowest: int  # offset
    gone: int  # rows whose offsets the log no longer has
