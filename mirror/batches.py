"""What an answer of the source brings of one partition: cut into whole batches, and looked at by
their headers alone. Pure.

No batch is opened and no CRC computed: the target does that, as it does for any producer. What is
looked at is whether each batch goes on where the one before it ended.
"""

from typing import Final

import msgspec

from wire.batch import HEADER, HEADER_SIZE, LENGTH_PREFIX, MAGIC, BatchHeader

_LEAST: Final = HEADER_SIZE - LENGTH_PREFIX
_LARGEST: Final = 512 * 1024 * 1024  # of a batch that anybody waits for


class Gap(msgspec.Struct, frozen=True):
    """The copy ends at `end`, and the source's next batch begins at `begins`."""

    end: int
    begins: int

    def __str__(self) -> str:
        return f"{self.end}-{self.begins}"


class Cut(msgspec.Struct):
    """Whole batches that follow on each other."""

    data: memoryview
    next_offset: int
    headers: list[BatchHeader] = []
    gap: Gap | None = None  # behind these
    fault: str = ""  # what is behind these cannot be copied, as it is no batch of this format
    needs: int = 0  # bytes of the first batch, if not even that came whole


def cut(records: memoryview, position: int, *, gaps: bool) -> Cut:
    """What is behind `position`, up to the last batch that came whole. `gaps`: the source compacts,
    so offsets may be missing anywhere."""
    size, begin, at = len(records), -1, 0
    found = Cut(records[:0], position)
    unpack, make = HEADER.unpack_from, BatchHeader._make
    expected = position
    while at + HEADER_SIZE <= size:
        header = make(unpack(records, at))
        base, length, _, magic, *_ = header
        behind = at + LENGTH_PREFIX + length
        following = base + header.last_offset_delta + 1
        if magic != MAGIC or not _LEAST <= length <= _LARGEST or following <= base or base < 0:
            found.fault = _fault(header)
            break
        if behind > size:
            if not found.headers:
                found.needs = header.size
            break
        if following <= position:  # it comes before what was asked for
            at = behind
            continue
        if base > expected and not gaps:
            found.gap = Gap(expected, base)
            break
        if begin < 0:
            begin = at
        found.headers.append(header)
        at, expected = behind, following
    if begin >= 0:
        found.data, found.next_offset = records[begin:at], expected
    return found


def _fault(header: BatchHeader) -> str:
    if header.magic in {0, 1}:
        return (
            f"at offset {header.base_offset} the source has record format {header.magic}: only "
            f"format {MAGIC} (Kafka 0.11 and newer) can be copied"
        )
    return f"what the source sends at offset {header.base_offset} is no record batch"
