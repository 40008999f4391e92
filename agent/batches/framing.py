"""Events as records of a batch: framed column by column. Pure.

    record  length | 0 | time delta | offset delta | key | length | value | 0 headers
    value   0 | schema id | time | host | app | source | seq | position | … | body

Most of it is the same for all events of a stretch, or for most: host, app, source and path; the
high bytes of seqs, positions and times (`varints`). So the pieces of all records are laid out in
one flat list, constant ones by repetition, and the list is joined. A stretch is cut where a number
gets longer: between two cuts, everything but the bodies has fixed sizes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Final, TypeAlias

from agent.batches.varints import (
    BLOCK,
    BLOCK_BITS,
    LOW,
    SMALL,
    VARINTS,
    high_bytes,
    next_size,
    size_of,
)

_IN_BLOCK: Final = BLOCK - 1

Column: TypeAlias = Sequence[bytes]

NO_KEY: Final = b"\1"

# The end of one record, and of the next one its length and its attributes.
_BETWEEN: Final = [b"\0" + each + b"\0" for each in SMALL]
_OFFSETS_WITHOUT_KEY: Final = [each + NO_KEY for each in SMALL]


@dataclass(frozen=True, slots=True)
class Frame:
    """What is the same in all events of a source.

    `head` is magic byte and schema id, `identity` host, app and source, `before_body` what stands
    between position and body. A body that is `plain` is preceded by its length.
    """

    head: bytes
    identity: bytes
    before_body: bytes
    plain: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events of one source that follow each other in a batch, as columns. `lengths` are those of
    the bodies. One time may stand for all; `seqs` ascend, and so do `positions`."""

    frame: Frame
    times: Sequence[int] | int
    seqs: Sequence[int]
    positions: Sequence[int]
    bodies: Sequence[bytes]
    lengths: Sequence[int]
    keys: Sequence[bytes] | None = None

    def __len__(self) -> int:
        return len(self.bodies)

    def part(self, start: int, stop: int) -> "Stretch":
        times = self.times if isinstance(self.times, int) else self.times[start:stop]
        return Stretch(
            self.frame,
            times,
            self.seqs[start:stop],
            self.positions[start:stop],
            self.bodies[start:stop],
            self.lengths[start:stop],
            None if self.keys is None else self.keys[start:stop],
        )

    @property
    def earliest(self) -> int:
        return self.times if isinstance(self.times, int) else min(self.times)

    @property
    def latest(self) -> int:
        return self.times if isinstance(self.times, int) else max(self.times)


def framed(stretches: Sequence[Stretch], base_time: int) -> bytes:
    """The records of a batch, uncompressed, with offsets from 0 on."""
    pieces: list[bytes] = []
    offset = 0
    for stretch in stretches:
        for start, stop in _even(stretch, offset):
            part = stretch if stop - start == len(stretch) else stretch.part(start, stop)
            pieces += _pieces(part, base_time, offset + start)
        offset += len(stretch)
    pieces.append(b"\0")
    return b"".join(pieces)[1:]


def _even(stretch: Stretch, offset: int) -> Iterator[tuple[int, int]]:
    """Where it is cut so that seqs, positions and offsets have one length in each part."""
    start, count = 0, len(stretch)
    seqs, positions = stretch.seqs, stretch.positions
    while start < count:
        stop = min(count, next_size(offset + start) - offset)
        stop = bisect_left(seqs, next_size(seqs[start]), start + 1, stop)
        stop = bisect_left(positions, next_size(positions[start]), start + 1, stop)
        yield start, stop
        start = stop


def _pieces(part: Stretch, base_time: int, offset: int) -> list[bytes]:
    """All records of a part, in pieces; the first begins with the end of the record before."""
    frame, count = part.frame, len(part)
    sizes = Sizes(part.lengths)
    bodies: list[Column] = [part.bodies]
    if frame.plain:
        bodies.insert(0, sizes.written())
    moments = _moments(part.times, frame.identity, count, sizes)
    sizes.add(len(frame.head) + len(frame.identity) + len(frame.before_body))
    sizes.add(size_of(part.seqs[0]) + size_of(part.positions[0]))
    value_length = sizes.written()
    deltas = _deltas(part.times, base_time, count, sizes)
    offsets, keys = _offsets_and_keys(part.keys, offset, count, sizes)
    sizes.add(2)  # attributes, number of headers
    columns = [
        *(sizes.between(), deltas, offsets, *keys, value_length),
        *([frame.head] * count, *moments),
        *_ascending(part.seqs, b""),
        *_ascending(part.positions, frame.before_body),
        *bodies,
    ]
    width = len(columns)
    flat: list[bytes] = [b""] * (width * count)
    for place, column in enumerate(columns):
        flat[place::width] = column
    return flat


class Sizes:
    """How long each record is, as far as it is put together: what varies, and what is fixed."""

    def __init__(self, varying: Sequence[int]) -> None:
        self._varying = varying
        self._lowest, self._highest = min(varying), max(varying)
        self._fixed = 0

    def add(self, more: int) -> None:
        """To each."""
        self._fixed += more

    def add_column(self, more: Sequence[int]) -> None:
        self._varying = list(map(add, self._varying, more))
        self._lowest, self._highest = min(self._varying), max(self._varying)

    def written(self) -> Column:
        """The sizes so far, as what stands in front; which makes every record so much longer."""
        fixed, lowest, highest = self._fixed, self._lowest, self._highest
        if fixed + highest < BLOCK:
            column = [SMALL[size + fixed] for size in self._varying]
        else:
            column = [VARINTS[size + fixed] for size in self._varying]
        size = size_of(fixed + lowest)
        if fixed + highest < next_size(fixed + lowest):
            self.add(size)
        else:
            self.add_column(list(map(len, column)))
        return column

    def between(self) -> Column:
        """The end of the record before, the length of this one, its attributes."""
        fixed = self._fixed
        if fixed + self._highest < BLOCK:
            return [_BETWEEN[size + fixed] for size in self._varying]
        return [b"\0" + VARINTS[size + fixed] + b"\0" for size in self._varying]


def _moments(times: Sequence[int] | int, identity: bytes, count: int, sizes: Sizes) -> list[Column]:
    """The times, and what follows them."""
    if isinstance(times, int):
        time = VARINTS[times]
        sizes.add(len(time))
        return [[time + identity] * count]
    earliest, latest = min(times), max(times)
    if earliest < BLOCK or latest >= next_size(earliest):
        column = [VARINTS[time] for time in times]
        sizes.add_column(list(map(len, column)))
        return [column, [identity] * count]
    sizes.add(size_of(earliest))
    return [[LOW[time & _IN_BLOCK] for time in times], _highs(times, identity)]


def _deltas(times: Sequence[int] | int, base_time: int, count: int, sizes: Sizes) -> Column:
    if isinstance(times, int):
        delta = VARINTS[times - base_time]
        sizes.add(len(delta))
        return [delta] * count
    column = [VARINTS[time - base_time] for time in times]
    sizes.add_column(list(map(len, column)))
    return column


def _offsets_and_keys(
    keys: Sequence[bytes] | None, offset: int, count: int, sizes: Sizes
) -> tuple[Column, list[Column]]:
    sizes.add(size_of(offset))
    if keys is None:
        sizes.add(len(NO_KEY))
        if offset + count <= BLOCK:
            return _OFFSETS_WITHOUT_KEY[offset : offset + count], []
        return [VARINTS[each] + NO_KEY for each in range(offset, offset + count)], []
    written = [VARINTS[len(key)] + key for key in keys]
    sizes.add_column(list(map(len, written)))
    return [VARINTS[each] for each in range(offset, offset + count)], [written]


def _ascending(numbers: Sequence[int], then: bytes) -> list[Column]:
    """Numbers of one size, in ascending order, and what follows them."""
    first, last, count = numbers[0], numbers[-1], len(numbers)
    if last - first == count - 1 and first >> BLOCK_BITS == last >> BLOCK_BITS:
        table = LOW if last >= BLOCK else SMALL
        low = table[first & _IN_BLOCK : (last & _IN_BLOCK) + 1]
        rest = high_bytes(first >> BLOCK_BITS) + then if last >= BLOCK else then
        return [low, [rest] * count] if rest else [low]
    if last < BLOCK:
        small = [SMALL[number] for number in numbers]
        return [small, [then] * count] if then else [small]
    return [[LOW[number & _IN_BLOCK] for number in numbers], _highs(numbers, then)]


def _highs(numbers: Sequence[int], then: bytes) -> Column:
    """What stands behind the two lowest bytes of numbers, for the same block made only once."""
    blocks = [number >> BLOCK_BITS for number in numbers]
    known = {block: high_bytes(block) + then for block in set(blocks)}
    return [known[block] for block in blocks]
