"""Records that are no rows, as they are kept below `{root}/_dead`."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from loader.decoding.decoded import Dead
from loader.tables import Slice

DEAD_LETTERS: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("cluster", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),  # milliseconds, as the record has it
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("schema_id", pa.int32()),  # -1: none
    ]
)

_AROUND: Final = 400  # bytes of memory, besides key and value


class DeadLetters:
    """Those of a slice that are held back."""

    def __init__(self, piece: Slice) -> None:
        self._piece = piece
        self._letters: list[Dead] = []
        self.bytes = 0

    def add(self, letters: Sequence[Dead]) -> None:
        self._letters += letters
        self.bytes += sum(_size(letter) for letter in letters)

    def take(self) -> pa.Table | None:
        """All of them; None if there are none."""
        letters, self._letters, self.bytes = self._letters, [], 0
        if not letters:
            return None
        piece, count = self._piece, len(letters)
        columns = [
            pa.repeat(piece.topic, count),
            pa.repeat(piece.cluster, count),
            pa.repeat(pa.scalar(piece.partition, pa.int32()), count),
            pa.array([each.offset for each in letters], pa.int64()),
            pa.array([each.timestamp for each in letters], pa.int64()),
            pa.array([each.key for each in letters], pa.binary()),
            pa.array([each.value for each in letters], pa.binary()),
            pa.array([each.reason for each in letters], pa.string()),
            pa.array([each.detail.encode(errors="replace") for each in letters], pa.string()),
            pa.array([_signed(each.schema_id) for each in letters], pa.int32()),
        ]
        return pa.Table.from_arrays(columns, schema=DEAD_LETTERS)


def _size(letter: Dead) -> int:
    return len(letter.key or b"") + len(letter.value or b"") + len(letter.detail) + _AROUND


def _signed(schema_id: int) -> int:
    """The four bytes of an id, which may claim to be anything, as Avro and Java see them."""
    return (schema_id + (1 << 31)) % (1 << 32) - (1 << 31)
