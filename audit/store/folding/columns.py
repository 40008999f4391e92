"""A chunk's entries, passages, windows and runs as numpy columns. Each refers to its parent by row:
`Passages.entry` is a row of `Entries`, `Windows.passage` a row of `Passages`, and so on.

Values are limited to plausible sizes here, so that sums cannot overflow. Pure.
"""

import hashlib
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

MOST: Final = 1 << 40  # of anything that is counted, in one statement
MOST_TIME: Final = 1 << 46  # milliseconds: the year 4199
MOST_TEXT: Final = 4096  # characters
MOST_PARTITION: Final = 1 << 20
MOST_EPOCH: Final = (1 << 31) - 1
_MOST_SUM: Final = 1 << 53
_HOUR: Final = 3_600_000


class TextColumn(msgspec.Struct, frozen=True):
    """A column of texts, stored as indexes into `values`."""

    codes: Numbers
    values: list[str]

    def take(self, rows: Numbers) -> list[str]:
        return [self.values[code] for code in self.codes[rows].tolist()]


def numbers(column: pa.Array) -> Numbers:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def counts(column: pa.Array, most: int = MOST) -> Numbers:
    """Returns counts, limited to between 0 and `most`."""
    return np.clip(numbers(column), 0, most)


def texts(column: pa.Array) -> TextColumn:
    dictionary = column.dictionary_encode()
    values = dictionary.dictionary.to_pylist()
    # All are checked at once, as hardly any has to be cut.
    if max(map(len, values), default=0) > MOST_TEXT or "\0" in "".join(values):
        values = [cut(text) for text in values]
    return TextColumn(numbers(dictionary.indices), values)


def cut(text: str) -> str:
    """Shortens a text that is longer than any path, adding a digest that keeps it distinct."""
    if len(text) > MOST_TEXT:
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        text = f"{text[:MOST_TEXT]}… ({digest})"
    return text.replace("\0", "\ufffd") if "\0" in text else text


def parents(column: pa.ListArray) -> Numbers:
    return numbers(pc.list_parent_indices(column))


class Entries(msgspec.Struct, frozen=True):
    """The top-level fields of a chunk's entries."""

    body: pa.StructArray
    journal: TextColumn
    seq: Numbers
    time: Numbers
    said: Numbers  # the time by the writer's clock, maybe ahead of `latest`
    host: TextColumn
    tier: TextColumn
    destination: TextColumn
    run: Numbers
    window_millis: Numbers
    latest: int

    @classmethod
    def of(cls, body: pa.StructArray, latest: int = MOST_TIME) -> "Entries":
        """Makes the entries of a chunk. Times after `latest`, from writers whose clocks are ahead,
        become `latest`."""
        header = body.field("header")
        times = np.clip(numbers(header.field("time")), 0, MOST_TIME)
        return cls(
            body,
            texts(header.field("source")),
            numbers(header.field("seq")),
            np.minimum(times, latest),
            times,
            texts(header.field("host")),
            texts(body.field("tier")),
            texts(body.field("destination")),
            np.maximum(numbers(body.field("run")), -1),
            np.clip(numbers(body.field("window_millis")), 1, _HOUR),
            latest,
        )

    def __len__(self) -> int:
        return len(self.seq)

    def only(self, chosen: NDArray[np.bool_]) -> "Entries":
        """Returns the chosen entries."""
        return Entries.of(self.body.filter(pa.array(chosen)), self.latest)

    def of_tier(self, tier: str) -> NDArray[np.bool_]:
        if tier not in self.tier.values:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self.tier.codes == self.tier.values.index(tier))

    def window(self) -> Numbers:
        """Returns the window in which each entry was written."""
        return self.time - self.time % self.window_millis


class Passages(msgspec.Struct, frozen=True):
    """The passages of all entries."""

    entry: Numbers
    topic: TextColumn
    topic_id: TextColumn
    partition: Numbers
    epoch: Numbers  # of the leader; -1: unknown
    struct: pa.StructArray

    @classmethod
    def of(cls, entries: Entries) -> "Passages":
        list_column = entries.body.field("passages")
        elements = list_column.flatten()
        return cls(
            parents(list_column),
            texts(elements.field("topic")),
            texts(elements.field("topic_id")),
            np.clip(numbers(elements.field("partition")), -1, MOST_PARTITION),
            np.clip(numbers(elements.field("leader_epoch")), -1, MOST_EPOCH),
            elements,
        )

    def __len__(self) -> int:
        return len(self.entry)


class Offsets(msgspec.Struct, frozen=True):
    """The stretches of offsets of all passages, in the order of the passages."""

    passage: Numbers
    first: Numbers
    count: Numbers

    @classmethod
    def of(cls, passages: Passages) -> "Offsets":
        list_column = passages.struct.field("offsets")
        elements = list_column.flatten()
        passage, first = parents(list_column), numbers(elements.field("first"))
        count = counts(elements.field("count"))
        is_valid = (
            (first >= 0) & (first < _MOST_SUM) & (count > 0) & (passages.partition[passage] >= 0)
        )
        return cls(passage[is_valid], first[is_valid], count[is_valid])


class Batches(msgspec.Struct, frozen=True):
    """The batches in brokers' passages that look like an agent's. `crc` is -1 if it is not
    usable."""

    passage: Numbers
    first: Numbers
    count: Numbers
    crc: Numbers

    @classmethod
    def of(cls, passages: Passages, first: Numbers) -> "Batches":
        """Makes the batches of passages. `first` is the first offset of each passage."""
        list_column = passages.struct.field("batches")
        elements = list_column.flatten()
        passage = parents(list_column)
        skipped_offsets, count = counts(elements.field("skipped")), counts(elements.field("count"))
        offsets_before = np.cumsum(skipped_offsets + count) - count
        first_rows = np.flatnonzero(np.diff(passage, prepend=-1))
        start = np.concatenate(([0], np.cumsum(skipped_offsets + count)))[first_rows]
        lengths = np.diff(np.append(first_rows, len(passage)))
        offsets = first[passage] + offsets_before - np.repeat(start, lengths)
        crc = np.clip(numbers(elements.field("crc")), -1, _MOST_SUM)
        is_valid = (count > 0) & (offsets < _MOST_SUM)
        return cls(passage[is_valid], offsets[is_valid], count[is_valid], crc[is_valid])


class Origins(msgspec.Struct, frozen=True):
    """The origins in passages about copies. Nearly all chunks have no origins."""

    passage: Numbers
    cluster: TextColumn
    topic: TextColumn
    topic_id: TextColumn

    @classmethod
    def of(cls, passages: Passages) -> "Origins":
        origin_column = passages.struct.field("origin")
        rows = np.empty(0, np.int64)
        if origin_column.null_count < len(origin_column):
            rows = np.flatnonzero(origin_column.is_valid().to_numpy(zero_copy_only=False))
        origins = origin_column.take(pa.array(rows, pa.int64()))
        return cls(rows, *(texts(origins.field(name)) for name in ("cluster", "topic", "topic_id")))


class EpochBeginnings(msgspec.Struct, frozen=True):
    """Passages that report, by an empty stretch of offsets, that their leader epoch begins."""

    passage: Numbers
    first: Numbers

    @classmethod
    def of(cls, passages: Passages) -> "EpochBeginnings":
        list_column = passages.struct.field("offsets")
        elements = list_column.flatten()
        passage, first = parents(list_column), numbers(elements.field("first"))
        is_valid = (numbers(elements.field("count")) == 0) & (first >= 0) & (first < _MOST_SUM)
        is_valid &= (passages.partition[passage] >= 0) & (passages.epoch[passage] >= 0)
        return cls(passage[is_valid], first[is_valid])


class Windows(msgspec.Struct, frozen=True):
    """The windows of passages. `start` is a multiple of `length`."""

    passage: Numbers
    start: Numbers
    length: Numbers
    events: Numbers
    bytes: Numbers
    crc_sum: Numbers
    late: Numbers
    duplicates: Numbers
    dead: Numbers

    @classmethod
    def of(cls, entries: Entries, passages: Passages) -> "Windows":
        list_column = passages.struct.field("windows")
        elements = list_column.flatten()
        passage = parents(list_column)
        length = entries.window_millis[passages.entry[passage]]
        start = np.clip(numbers(elements.field("start")), 0, MOST_TIME)
        excepted_columns = ExceptedColumns.of(elements.field("excepted"))
        return cls(
            passage,
            start - start % length,
            length,
            counts(elements.field("events")),
            counts(elements.field("bytes")),
            counts(elements.field("crc_sum"), _MOST_SUM),
            counts(elements.field("late")),
            excepted_columns.sum_of("duplicate", len(elements)),
            excepted_columns.sum_of("dead_lettered", len(elements)),
        )

    def hour(self) -> Numbers:
        return self.start - self.start % _HOUR


class ExceptedColumns(msgspec.Struct, frozen=True):
    """Events of windows or runs that did not become events downstream. `owner` has the row of the
    window or run."""

    owner: Numbers
    fate: TextColumn
    count: Numbers  # -1: unknown
    bytes: Numbers
    reason: pa.StringArray

    @classmethod
    def of(cls, lists: pa.ListArray) -> "ExceptedColumns":
        elements = lists.flatten()
        return cls(
            parents(lists),
            texts(elements.field("fate")),
            np.clip(numbers(elements.field("count")), -1, MOST),
            np.clip(numbers(elements.field("bytes")), -1, MOST),
            elements.field("reason"),
        )

    def of_fate(self, fate: str) -> NDArray[np.bool_]:
        if fate not in self.fate.values:
            return np.zeros(len(self.owner), np.bool_)
        return np.asarray(self.fate.codes == self.fate.values.index(fate))

    def sum_of(self, fate: str, owners: int, *, of_bytes: bool = False) -> Numbers:
        """Returns, for each owner, the sum of the events or bytes with this fate; unknown counts
        are taken as 0."""
        sums = np.zeros(owners, np.int64)
        if len(self.owner):
            is_of_fate = self.of_fate(fate)
            amount = self.bytes if of_bytes else self.count
            np.add.at(sums, self.owner[is_of_fate], np.maximum(amount[is_of_fate], 0))
        return sums

    def unknown(self, fate: str, owners: int) -> Numbers:
        """Returns, for each owner, how many counts of events with this fate are unknown."""
        unknown_counts = np.zeros(owners, np.int64)
        if len(self.owner):
            np.add.at(unknown_counts, self.owner[self.of_fate(fate) & (self.count < 0)], 1)
        return unknown_counts


class Runs(msgspec.Struct, frozen=True):
    """The runs of all passages, in the order of the passages."""

    passage: Numbers
    source: TextColumn
    path: pa.StringArray
    seq: Numbers
    events: Numbers
    lines: Numbers
    position: Numbers
    end_position: Numbers
    excepted: ExceptedColumns

    @classmethod
    def of(cls, passages: Passages) -> "Runs":
        list_column = passages.struct.field("runs")
        elements = list_column.flatten()
        events = counts(elements.field("events"))
        lines = np.clip(numbers(elements.field("lines")), -1, MOST)
        return cls(
            parents(list_column),
            texts(elements.field("source")),
            elements.field("path"),
            np.clip(numbers(elements.field("seq")), 0, _MOST_SUM),
            events,
            np.where(lines < 0, events, lines),
            np.clip(numbers(elements.field("position")), -1, _MOST_SUM),
            np.clip(numbers(elements.field("end_position")), -1, _MOST_SUM),
            ExceptedColumns.of(elements.field("excepted")),
        )

    def __len__(self) -> int:
        return len(self.passage)


def hours_of(time: Numbers) -> Numbers:
    return time - time % _HOUR
