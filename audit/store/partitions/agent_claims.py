"""Compares agents' claims with the batches that brokers list at the same offsets, passage by
passage, regardless of neighbours and times.

Rule 1. A claim is compared once brokers have listed all of its offsets. Batches that do not make up
        its stretches, or whose CRCs have another sum than the agent's, are not what it sent.
Rule 2. Offsets that a broker reports without batches (an older broker, a copy), or without CRCs
        (LogAppendTime, compaction), prove nothing, and are skipped.
Rule 3. A claim is compared with the batches listed under its own leader epoch or higher ones: after
        a log was rewritten, an offset has several batches. Only batches of its own epoch can prove
        it wrong. A different batch of a later leader may mean that the claimed one was lost with
        the former leader, which other rules find missing.
Rule 4. Compared claims and batches are dropped. So are claims older than an hour, batches older
        than a day, and those beyond the limits.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import Batches, Numbers, numbers
from audit.store.folding.keyed_intervals import Mask
from audit.store.partitions.offsets import PassagePlaces
from ground.intervals import Intervals, merged, minus, union
from ground.known_types import known_type

_BATCH: Final = np.dtype(
    [("first", "<i8"), ("end", "<i8"), ("crc", "<i8"), ("epoch", "<i8"), ("said", "<i8")]
)
# A row for each stretch of a claim, which is an agent's passage. The stretches of a claim are
# consecutive, and the first has `begins`. `epoch`: the leader's; -1: unknown.
_CLAIM: Final = np.dtype(
    [
        *(("first", "<i8"), ("end", "<i8"), ("crc_sum", "<i8")),
        *(("epoch", "<i8"), ("said", "<i8"), ("begins", "?")),
    ]
)
_MOST: Final = 100_000  # batches of a partition
_MOST_CLAIMS: Final = 20_000
_KEPT: Final = 86_400_000  # milliseconds
_CLAIM_KEPT: Final = 3_600_000
_HOUR: Final = 3_600_000
_FOR_EVER: Final = 1 << 60
_REASON: Final = "the agent sent other batches than are there: their CRCs differ"
_DAMAGED: Final = """
INSERT OR IGNORE INTO damaged
    SELECT name, topic_id, ?2, ?3, ?4, ?5, ?6, ?6 FROM topics WHERE id = ?1
"""
_HOURS: Final = """
SELECT DISTINCT topic, hour FROM placed WHERE topic = ? AND partition = ? AND first < ?
    AND next_offset > ?
"""

Listed = NDArray[np.void]
Claims = NDArray[np.void]
Log = tuple[int, int]  # a topic and a partition of it


class LogListing(msgspec.Struct):
    """The pending comparison of one partition: batches, the offsets that are completely listed, by
    leader epoch, and claims."""

    batches: Listed
    offsets: dict[int, Intervals]
    claims: Claims

    @property
    def waits(self) -> bool:
        return bool(len(self.batches) or self.offsets or len(self.claims))

    def compare(self) -> list[tuple[int, int]]:
        """Compares and drops everything that is complete, and returns the stretches of wrong
        claims."""
        wrong: list[tuple[int, int]] = []
        done: list[tuple[int, int]] = []
        waiting = self.claims[:0]
        for epoch in set(self.claims["epoch"].tolist()):
            claimed = _Claimed(self.claims[self.claims["epoch"] == epoch])
            newer = [listed_epoch for listed_epoch in self.offsets if listed_epoch >= epoch]
            is_listed = claimed.within(
                union(*(self.offsets[listed_epoch] for listed_epoch in newer))
            )
            waiting = _joined(waiting, claimed.rows(~is_listed))
            if not is_listed.any():
                continue
            is_right = np.zeros(len(is_listed), np.bool_)
            for pool in _without_overlaps(self.batches[self.batches["epoch"] >= epoch]):
                is_right |= pool.makes_up(claimed)
            is_own = is_listed
            if newer != [epoch]:
                is_own = claimed.within(self.offsets.get(epoch, ())) | (epoch < 0)
            wrong += _intervals(claimed.rows(is_listed & is_own & ~is_right))
            done += _intervals(claimed.rows(is_listed & (is_own | is_right)))
        self.claims = waiting
        if done:
            self._drop(merged(done))
        return wrong

    def _drop(self, done: Intervals) -> None:
        self._listed_without(done)
        begins = np.array([first for first, _ in done], np.int64)
        ends = np.array([end for _, end in done], np.int64)
        at = np.searchsorted(begins, self.batches["first"], "right") - 1
        inside = (at >= 0) & (self.batches["first"] < ends[np.maximum(at, 0)])
        self.batches = self.batches[~inside]

    def forget(self, now: int) -> None:
        """Drops entries that are too old or beyond the limits. Claims are dropped sooner than
        batches: if no broker lists batches, no claim is ever compared."""
        recent = self.claims[self.claims["said"] >= now - _CLAIM_KEPT]
        begins = np.flatnonzero(recent["begins"])[-_MOST_CLAIMS:]
        self.claims = recent[begins[0] :] if len(begins) else recent[:0]
        kept = self.batches[self.batches["said"] >= now - _KEPT][-_MOST:]
        if len(kept) < len(self.batches):
            self.batches = kept
            first = int(kept["first"].min()) if len(kept) else _FOR_EVER
            self._listed_without(((0, first),))

    def _listed_without(self, removed: Intervals) -> None:
        remaining = {epoch: minus(intervals, removed) for epoch, intervals in self.offsets.items()}
        self.offsets = {epoch: intervals for epoch, intervals in remaining.items() if intervals}


class _Pool:
    """Batches that do not overlap, for comparison with claims."""

    def __init__(self, batches: Listed) -> None:
        self._first, self._end = batches["first"], batches["end"]
        self._counts = _sums(batches["end"] - batches["first"])
        self._crcs = _sums(np.maximum(batches["crc"], 0))
        self._unproven = _sums((batches["crc"] < 0).astype(np.int64))

    def makes_up(self, claimed: "_Claimed") -> Mask:
        """Returns the mask of claims that match these batches exactly, or cover a batch without a
        usable CRC."""
        at = np.searchsorted(self._first, claimed.first, "right") - 1
        # If no batch covers the offset, the next one.
        at += (at < 0) | (np.append(self._end, 0)[at] <= claimed.first)
        after = np.searchsorted(self._first, claimed.end)
        unproven = claimed.each(np.logical_or, self._unproven[after] > self._unproven[at])
        counts = self._counts[after] - self._counts[at]
        whole = claimed.each(np.logical_and, counts == claimed.end - claimed.first)
        sums = claimed.each(np.add, self._crcs[after] - self._crcs[at])
        right: Mask = unproven | (whole & (sums == claimed.crc_sum))
        return right


class _Claimed:
    """Claims as columns: one row per stretch, and the first row of each claim."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self.first, self.end = claims["first"], claims["end"]
        self.begins = np.flatnonzero(claims["begins"])
        self.crc_sum = claims["crc_sum"][self.begins]

    def rows(self, chosen: Mask) -> Claims:
        """Returns the rows of the chosen claims."""
        if not chosen.any():
            return self._claims[:0]
        if chosen.all():
            return self._claims
        sizes = np.diff(self.begins, append=len(self._claims))
        return self._claims[np.repeat(chosen, sizes)]

    def each(self, over: np.ufunc, of_stretches: NDArray[Any]) -> NDArray[Any]:
        return over.reduceat(of_stretches, self.begins)

    def within(self, offsets: Intervals) -> Mask:
        """Returns whether each claim is within these offsets."""
        if not offsets:
            return np.zeros(len(self.begins), np.bool_)
        begin, end = np.array(offsets, np.int64).T
        at = np.searchsorted(begin, self.first, "right") - 1
        inside = (at >= 0) & (end[np.maximum(at, 0)] >= self.end)
        return self.each(np.logical_and, inside)


def _intervals(claims: Claims) -> list[tuple[int, int]]:
    return list(zip(claims["first"].tolist(), claims["end"].tolist(), strict=True))


def _joined(rows: NDArray[np.void], more_rows: NDArray[np.void]) -> NDArray[np.void]:
    """Concatenates rows; without a copy if one of the two is empty, as usual."""
    if not (len(rows) and len(more_rows)):
        return rows if len(rows) else more_rows
    return np.concatenate((rows, more_rows))


def _sums(column: Numbers) -> Numbers:
    return np.concatenate(([0], np.cumsum(column)))


def _without_overlaps(batches: Listed) -> tuple[_Pool, ...]:
    """Returns the batches without overlaps: of the newest leader epochs, and, if different, of the
    oldest."""
    ordered = batches[np.argsort(batches["first"], kind="stable")]
    if (ordered["first"][1:] >= ordered["end"][:-1]).all():
        return (_Pool(ordered),)
    return _Pool(_chosen(ordered, 1)), _Pool(_chosen(ordered, -1))


def _chosen(ordered: Listed, sign: int) -> Listed:
    """Chooses, of overlapping batches, the one of the higher epoch, or with -1 of the lower."""
    columns = (ordered[name].tolist() for name in ("first", "end", "epoch"))
    chosen: list[tuple[int, int, int]] = []  # end, epoch, and which it is
    for number, (first, end, epoch) in enumerate(zip(*columns, strict=True)):
        if chosen and chosen[-1][0] > first:
            if sign * epoch <= sign * chosen[-1][1]:
                continue
            chosen.pop()
        chosen.append((end, epoch, number))
    return ordered[np.array([number for _, _, number in chosen], np.int64)]


def keep(chunk: Chunk, places: PassagePlaces) -> None:
    listing = chunk.passages_of("broker") & (places.count > 0)
    claiming = chunk.passages_of("agent") & (places.count > 0)
    if not (listing.any() or claiming.any()):
        return
    logs = _known(chunk, listing | claiming)
    _add_listed(chunk, places, listing, logs)
    _add_claims(chunk, claiming, logs)
    for (topic, partition), listing_ in logs.items():
        if wrong := listing_.compare():
            _keep_wrong(chunk, topic, partition, wrong)
        listing_.forget(chunk.entries.latest)
    chunk.connection.executemany(
        "INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?, ?, ?)",
        (
            (*key, *_packed(listing_), chunk.entries.latest)
            for key, listing_ in logs.items()
            if listing_.waits
        ),
    )
    chunk.connection.executemany(
        "DELETE FROM listed WHERE topic = ? AND partition = ?",
        (key for key, listing_ in logs.items() if not listing_.waits),
    )


def _known(chunk: Chunk, chosen: Mask) -> dict[Log, LogListing]:
    keys = set(
        zip(chunk.topic[chosen].tolist(), chunk.passages.partition[chosen].tolist(), strict=True)
    )
    listings = {
        key: LogListing(np.empty(0, _BATCH), {}, np.empty(0, _CLAIM)) for key in sorted(keys)
    }
    rows = chunk.connection.execute(
        "SELECT topic, partition, batches, offsets, claims FROM listed"
        " WHERE topic IN (SELECT value FROM json_each(?))",
        (str(sorted({topic for topic, _ in keys})),),
    )
    for topic, partition, batches, offsets, claims in rows:
        if (topic, partition) in listings:
            listings[topic, partition] = LogListing(
                np.frombuffer(batches, _BATCH),
                msgspec.msgpack.decode(offsets, type=known_type(dict[int, Intervals])),
                np.frombuffer(claims, _CLAIM),
            )
    return listings


def _packed(listing: LogListing) -> tuple[bytes, bytes, bytes]:
    return (
        listing.batches.tobytes(),
        msgspec.msgpack.encode(listing.offsets),
        listing.claims.tobytes(),
    )


def _add_listed(
    chunk: Chunk, places: PassagePlaces, listing: Mask, logs: Mapping[Log, LogListing]
) -> None:
    passages = chunk.passages
    lists = numbers(passages.struct.field("lists_batches").cast("int8")) > 0
    batches = Batches.of(passages, places.first)
    is_listed = (listing & lists)[batches.passage]
    unlisted = np.flatnonzero(listing & ~lists)
    passage = np.concatenate((batches.passage[is_listed], unlisted))
    rows = np.empty(len(passage), _BATCH)
    rows["first"] = np.concatenate((batches.first[is_listed], places.first[unlisted]))
    ends = (batches.first + batches.count)[is_listed]
    rows["end"] = np.concatenate((ends, places.next_offset[unlisted]))
    rows["crc"] = np.concatenate((batches.crc[is_listed], np.full(len(unlisted), -1)))
    rows["epoch"] = passages.epoch[passage]
    rows["said"] = chunk.entries.latest
    for key, at in _by_log(chunk, passage):
        batches_ = logs[key].batches
        logs[key].batches = (
            np.unique(np.concatenate((batches_, rows[at]))) if len(batches_) else rows[at]
        )
    offsets = chunk.offsets
    rows_ = np.flatnonzero(listing[offsets.passage])
    for key, at in _by_log(chunk, offsets.passage[rows_]):
        first = offsets.first[rows_[at]]
        columns = (
            passages.epoch[offsets.passage[rows_[at]]],
            first,
            first + offsets.count[rows_[at]],
        )
        listed = logs[key].offsets
        for epoch, begin, end in zip(*(column.tolist() for column in columns), strict=True):
            listed[epoch] = union(listed.get(epoch, ()), ((begin, end),))


def _add_claims(chunk: Chunk, claiming: Mask, logs: Mapping[Log, LogListing]) -> None:
    windows, offsets = chunk.windows, chunk.offsets
    crc_sum = np.zeros(len(chunk.passages), np.int64)
    np.add.at(crc_sum, windows.passage, windows.crc_sum)
    at = np.flatnonzero(claiming[offsets.passage])
    passage = offsets.passage[at]
    rows = np.empty(len(at), _CLAIM)
    rows["first"] = offsets.first[at]
    rows["end"] = rows["first"] + offsets.count[at]
    rows["begins"] = np.diff(passage, prepend=-1) != 0
    rows["crc_sum"] = crc_sum[passage]
    rows["epoch"] = chunk.passages.epoch[passage]
    rows["said"] = chunk.entries.latest
    for key, rows_ in _by_log(chunk, passage):
        logs[key].claims = _joined(logs[key].claims, rows[rows_])


def _by_log(chunk: Chunk, passage: Numbers) -> Iterator[tuple[Log, Numbers]]:
    """Yields the rows of each partition."""
    if not len(passage):
        return
    topic, partition = chunk.topic[passage], chunk.passages.partition[passage]
    order = np.lexsort((partition, topic))
    changes = (np.diff(topic[order]) != 0) | (np.diff(partition[order]) != 0)
    for rows in np.split(order, np.flatnonzero(changes) + 1):
        yield (int(topic[rows[0]]), int(partition[rows[0]])), rows


def _keep_wrong(chunk: Chunk, topic: int, partition: int, wrong: Sequence[tuple[int, int]]) -> None:
    time = chunk.entries.latest
    for first, end in wrong:
        values = (topic, partition, first, end - first, _REASON, time)
        chunk.connection.execute(_DAMAGED, values)
        hours = chunk.connection.execute(_HOURS, (topic, partition, end, first)).fetchall()
        chunk.touched.update(hours)
    chunk.touched.add((topic, time - time % _HOUR))
    chunk.damaged_topics.add(topic)
