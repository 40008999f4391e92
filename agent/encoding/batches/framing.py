"""Frames events as the records of a batch, column by column. Pure.

    record  length | 0 | time delta | offset delta | key | length | value | 0 headers
    value   0 | schema id | time | host | app | source | seq | position | … | body

Most bytes are the same for all or most events of a stretch: host, app, source and path; the high
bytes of seqs, positions and times (`varints`). If `_record_framing.c` is compiled (`NATIVE`), it
writes the records one by one. Otherwise the pieces of all records are laid out in one flat list,
repeating constant ones, and joined: a stretch is cut where a varint gets longer, so that between
two cuts everything but the bodies has a fixed size.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import add
from typing import Final, TypeAlias, TypeVar

import msgspec

from ground.varints import (
    BLOCK,
    BLOCK_BITS,
    LOW,
    SMALL,
    VARINTS,
    high_bytes,
    looked_up,
    next_size,
    size_of,
)

try:
    from agent.encoding.batches._record_framing import frame, measure
except ImportError:
    NATIVE = False
else:
    NATIVE = True

Column: TypeAlias = bytes | Sequence[bytes]
"""A piece of every record: the same for all, or one for each."""

_Item = TypeVar("_Item")
_Numbers: TypeAlias = list[int] | int
_Columns: TypeAlias = tuple[
    bytes, bytes, bytes, bool, _Numbers, _Numbers, _Numbers, list[bytes], list[bytes] | None
]

NO_KEY: Final = b"\1"

_IN_BLOCK: Final = BLOCK - 1
_WITH_LENGTH: Final = [size + size_of(size) for size in range(BLOCK)]
_BETWEEN: Final = [b"\0" + each + b"\0" for each in SMALL]
_OFFSETS_WITHOUT_KEY: Final = [each + NO_KEY for each in SMALL]
_LONG: Final = 4  # a table is sliced for a stretch if at most so many times as long as the stretch


class Frame(msgspec.Struct, frozen=True):
    """The bytes that all events of a source share.

    `head` is magic byte and schema id, `identity` host, app and source, `before_body` everything
    between position and body. A `plain` body is preceded by its length.
    """

    head: bytes
    identity: bytes
    before_body: bytes
    plain: bool


class Stretch:
    """Consecutive events of one source in a batch, as columns; at least one event.

    `total` is the size of all bodies, `longest` that of the longest. `times` may be one number for
    all; `seqs` and `positions` ascend.
    """

    __slots__ = (
        *("frame", "times", "seqs", "positions", "bodies", "keys"),
        *("total", "longest", "earliest", "latest"),
    )

    def __init__(
        self,
        frame: Frame,
        *,
        times: Sequence[int] | int,
        seqs: Sequence[int],
        positions: Sequence[int],
        bodies: Sequence[bytes],
        keys: Sequence[bytes] | None = None,
    ) -> None:
        self.frame = frame
        self.times = times
        self.seqs = seqs
        self.positions = positions
        self.bodies = bodies
        self.keys = keys
        self.total, self.longest = _measured(bodies)
        self.earliest = times if isinstance(times, int) else min(times)
        self.latest = times if isinstance(times, int) else max(times)

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def lengths(self) -> list[int]:
        return list(map(len, self.bodies))

    def part(self, start: int, stop: int) -> "Stretch":
        return Stretch(
            self.frame,
            times=self.times if isinstance(self.times, int) else self.times[start:stop],
            seqs=self.seqs[start:stop],
            positions=self.positions[start:stop],
            bodies=self.bodies[start:stop],
            keys=None if self.keys is None else self.keys[start:stop],
        )

    def chosen(self, places: Sequence[int]) -> "Stretch":
        """Returns a stretch with only the events at these indexes."""
        times, keys = self.times, self.keys
        return Stretch(
            self.frame,
            times=times if isinstance(times, int) else [times[index] for index in places],
            seqs=[self.seqs[index] for index in places],
            positions=[self.positions[index] for index in places],
            bodies=[self.bodies[index] for index in places],
            keys=None if keys is None else [keys[index] for index in places],
        )


def _measured(bodies: Sequence[bytes], *, native: bool = NATIVE) -> tuple[int, int]:
    """The total size, and that of the longest body."""
    if native:
        return measure(_listed(bodies))
    lengths = list(map(len, bodies))
    return sum(lengths), max(lengths)


def framed(stretches: Sequence[Stretch], base_time: int, *, native: bool = NATIVE) -> bytes:
    """The records of a batch, uncompressed, with offsets from 0 on."""
    if native:
        return frame(tuple(map(_columns, stretches)), base_time)
    return _joined(stretches, base_time)


def _columns(stretch: Stretch) -> _Columns:
    """The columns as C takes them: lists, or for consecutive numbers only the first."""
    frame, times, keys = stretch.frame, stretch.times, stretch.keys
    return (
        *(frame.head, frame.identity, frame.before_body, frame.plain),
        times if isinstance(times, int) else _listed(times),
        _first_or_all(stretch.seqs),
        _first_or_all(stretch.positions),
        _listed(stretch.bodies),
        None if keys is None else _listed(keys),
    )


def _first_or_all(numbers: Sequence[int]) -> list[int] | int:
    if isinstance(numbers, range) and numbers.step == 1:
        return numbers.start
    return _listed(numbers)


def _listed(column: Sequence[_Item]) -> list[_Item]:
    return column if isinstance(column, list) else list(column)


def _joined(stretches: Sequence[Stretch], base_time: int) -> bytes:
    pieces: list[bytes] = []
    offset = 0
    for stretch in stretches:
        for start, stop in _even(stretch, offset):
            part = stretch if stop - start == len(stretch) else stretch.part(start, stop)
            pieces += _pieces(part, base_time, offset + start)
        offset += len(stretch)
    pieces[0] = pieces[0].removeprefix(b"\0")
    pieces.append(b"\0")
    return b"".join(pieces)


def _even(stretch: Stretch, offset: int) -> Iterator[tuple[int, int]]:
    """Bounds of parts in which the varints of seqs, positions and offsets have the same length."""
    start, count = 0, len(stretch)
    seqs, positions = stretch.seqs, stretch.positions
    while start < count:
        stop = min(count, next_size(offset + start) - offset)
        stop = bisect_left(seqs, next_size(seqs[start]), start + 1, stop)
        stop = bisect_left(positions, next_size(positions[start]), start + 1, stop)
        yield start, stop
        start = stop


def _pieces(part: Stretch, base_time: int, offset: int) -> list[bytes]:
    """The pieces of all records of a part; the first begins with the end of the previous record."""
    frame, count = part.frame, len(part)
    sizes = _Sizes(part.lengths, part.longest)
    bodies: list[Column] = [part.bodies]
    if frame.plain:
        bodies.insert(0, sizes.written())
    moments = _moments(part, frame.identity, sizes)
    sizes.add(len(frame.head) + len(frame.identity) + len(frame.before_body))
    sizes.add(size_of(part.seqs[0]) + size_of(part.positions[0]))
    value_length = sizes.written()
    deltas = _deltas(part, base_time, sizes)
    offsets = _offsets_and_keys(part.keys, offset, count, sizes)
    sizes.add(2)  # attributes, number of headers
    columns = [
        *(sizes.between(), deltas, *offsets, value_length, frame.head, *moments),
        *_ascending(part.seqs),
        *_ascending(part.positions, frame.before_body),
        *bodies,
    ]
    return _laid_out(columns, count)


def _laid_out(columns: Sequence[Column], count: int) -> list[bytes]:
    """The columns row by row in one list. Adjacent constant columns are merged."""
    parts: list[Column] = []
    for column in columns:
        if isinstance(column, bytes) and parts and isinstance(parts[-1], bytes):
            parts[-1] += column
        elif column:
            parts.append(column)
    width = len(parts)
    flat_parts: list[bytes] = [b""] * (width * count)
    for index, column in enumerate(parts):
        flat_parts[index::width] = [column] * count if isinstance(column, bytes) else column
    return flat_parts


class _Sizes:
    """The length of each record so far: a varying part and a fixed part."""

    def __init__(self, varying: Sequence[int], longest: int) -> None:
        self._varying = varying
        self._most = longest
        self._fixed = 0

    def add(self, more: int) -> None:
        self._fixed += more

    def add_column(self, more: Sequence[int]) -> None:
        self._varying = list(map(add, self._varying, more))
        self._most = max(self._varying)

    def between(self) -> Sequence[bytes]:
        """The bytes between two parts: the end of a record, the length of the next, and its
        attributes."""
        if self._fixed + self._most >= BLOCK:
            return [b"\0" + VARINTS[size + self._fixed] + b"\0" for size in self._varying]
        return _looked_up(_BETWEEN, self._varying, self._fixed, self._most)

    def written(self) -> Sequence[bytes]:
        """Returns the length of each record so far as a varint, and adds the size of that varint to
        the length."""
        fixed, most = self._fixed, self._most
        column = _looked_up(SMALL, self._varying, fixed, most)
        limit = next_size(fixed)
        if fixed + most < limit or fixed + most < next_size(fixed + min(self._varying)):
            self.add(len(column[0]))
        elif not fixed and most < BLOCK:
            self._varying = list(map(_WITH_LENGTH.__getitem__, self._varying))
            self._most += 2
        else:
            self.add_column(list(map(len, column)))
        return column


def _looked_up(table: list[bytes], numbers: Sequence[int], more: int, most: int) -> Sequence[bytes]:
    """The table's entry at each number plus `more`; no number is above `most`."""
    if more + most >= len(table):
        return [VARINTS[number + more] for number in numbers]
    if most < _LONG * len(numbers):
        table = table[more : more + most + 1]
        return list(map(table.__getitem__, numbers))
    return [table[number + more] for number in numbers]


def _moments(part: Stretch, identity: bytes, sizes: _Sizes) -> list[Column]:
    """The columns of the times and the identity after them."""
    times = part.times
    if isinstance(times, int):
        time = VARINTS[times]
        sizes.add(len(time))
        return [time, identity]
    if part.earliest < BLOCK or part.latest >= next_size(part.earliest):
        column = [VARINTS[time] for time in times]
        sizes.add_column(list(map(len, column)))
        return [column, identity]
    sizes.add(size_of(part.earliest))
    blocks = [time >> BLOCK_BITS for time in times]
    high_bytes_by_block = {block: high_bytes(block) for block in set(blocks)}
    return [
        [LOW[time & _IN_BLOCK] for time in times],
        list(map(high_bytes_by_block.__getitem__, blocks)),
        identity,
    ]


def _deltas(part: Stretch, base_time: int, sizes: _Sizes) -> Column:
    if part.earliest == part.latest:
        delta = VARINTS[part.earliest - base_time]
        sizes.add(len(delta))
        return delta
    assert not isinstance(part.times, int)
    deltas = [time - base_time for time in part.times]
    column = looked_up(deltas, part.latest - base_time)
    sizes.add_column(list(map(len, column)))
    return column


def _offsets_and_keys(
    keys: Sequence[bytes] | None, offset: int, count: int, sizes: _Sizes
) -> list[Column]:
    sizes.add(size_of(offset))
    offsets = _ascending(range(offset, offset + count))
    if keys is None:
        sizes.add(len(NO_KEY))
        if offset + count <= BLOCK:
            return [_OFFSETS_WITHOUT_KEY[offset : offset + count]]
        return [*offsets, NO_KEY]
    encoded_keys = [VARINTS[len(key)] + key for key in keys]
    sizes.add_column(list(map(len, encoded_keys)))
    return [*offsets, encoded_keys]


def _ascending(numbers: Sequence[int], then: bytes = b"") -> list[Column]:
    """The columns of ascending numbers of one varint length, each followed by `then`."""
    first, last, count = numbers[0], numbers[-1], len(numbers)
    first_block, last_block = first >> BLOCK_BITS, last >> BLOCK_BITS
    if last - first == count - 1 and first_block == last_block:
        table = LOW if last >= BLOCK else SMALL
        low_bytes = table[first & _IN_BLOCK : (last & _IN_BLOCK) + 1]
        return [low_bytes, high_bytes(first_block) + then] if last >= BLOCK else [low_bytes, then]
    if last < BLOCK:
        return [[SMALL[number] for number in numbers], then]
    return [[LOW[number & _IN_BLOCK] for number in numbers], _highs(numbers, then)]


def _highs(numbers: Sequence[int], then: bytes) -> Sequence[bytes]:
    """All but the two lowest bytes of ascending numbers, which a whole block shares, and `then`."""
    high_parts: list[bytes] = []
    while (start := len(high_parts)) < len(numbers):
        block = numbers[start] >> BLOCK_BITS
        stop = bisect_left(numbers, block + 1 << BLOCK_BITS, start + 1)
        high_parts += [high_bytes(block) + then] * (stop - start)
    return high_parts
