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
    """The pending comparison of one partition: its batches, the completely listed offsets by leader
    epoch, and its claims."""

    batches: Listed
    offsets: dict[int, Intervals]
    claims: Claims

    @property
    def waits(self) -> bool:
        return bool(len(self.batches) or self.offsets or len(self.claims))

    def compare(self) -> list[tuple[int, int]]:
        """Compares claims with batches, drops everything that is complete, and returns the
        stretches of wrong claims."""
        wrong_stretches: list[tuple[int, int]] = []
        done_stretches: list[tuple[int, int]] = []
        waiting_claims = self.claims[:0]
        for epoch in set(self.claims["epoch"].tolist()):
            epoch_claims = _Claimed(self.claims[self.claims["epoch"] == epoch])
            newer_epochs = [listed_epoch for listed_epoch in self.offsets if listed_epoch >= epoch]
            is_listed = epoch_claims.within(
                union(*(self.offsets[listed_epoch] for listed_epoch in newer_epochs))
            )
            waiting_claims = _joined(waiting_claims, epoch_claims.rows(~is_listed))
            if not is_listed.any():
                continue
            is_matched = np.zeros(len(is_listed), np.bool_)
            for pool in _without_overlaps(self.batches[self.batches["epoch"] >= epoch]):
                is_matched |= pool.makes_up(epoch_claims)
            is_own = is_listed
            if newer_epochs != [epoch]:
                is_own = epoch_claims.within(self.offsets.get(epoch, ())) | (epoch < 0)
            wrong_stretches += _intervals(epoch_claims.rows(is_listed & is_own & ~is_matched))
            done_stretches += _intervals(epoch_claims.rows(is_listed & (is_own | is_matched)))
        self.claims = waiting_claims
        if done_stretches:
            self._drop(merged(done_stretches))
        return wrong_stretches

    def _drop(self, done: Intervals) -> None:
        self._listed_without(done)
        begin_offsets = np.array([first for first, _ in done], np.int64)
        ends = np.array([end for _, end in done], np.int64)
        interval_rows = np.searchsorted(begin_offsets, self.batches["first"], "right") - 1
        is_inside = (interval_rows >= 0) & (
            self.batches["first"] < ends[np.maximum(interval_rows, 0)]
        )
        self.batches = self.batches[~is_inside]

    def forget(self, now: int) -> None:
        """Drops entries that are too old or beyond the limits. Claims are dropped sooner than
        batches: if no broker lists batches, no claim is ever compared."""
        recent_claims = self.claims[self.claims["said"] >= now - _CLAIM_KEPT]
        first_rows = np.flatnonzero(recent_claims["begins"])[-_MOST_CLAIMS:]
        self.claims = recent_claims[first_rows[0] :] if len(first_rows) else recent_claims[:0]
        kept_batches = self.batches[self.batches["said"] >= now - _KEPT][-_MOST:]
        if len(kept_batches) < len(self.batches):
            self.batches = kept_batches
            first_offset = int(kept_batches["first"].min()) if len(kept_batches) else _FOR_EVER
            self._listed_without(((0, first_offset),))

    def _listed_without(self, removed: Intervals) -> None:
        offsets = {epoch: minus(intervals, removed) for epoch, intervals in self.offsets.items()}
        self.offsets = {epoch: intervals for epoch, intervals in offsets.items() if intervals}


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
        begin_rows = np.searchsorted(self._first, claimed.first, "right") - 1
        # If no batch covers the offset, the next one.
        begin_rows += (begin_rows < 0) | (np.append(self._end, 0)[begin_rows] <= claimed.first)
        end_rows = np.searchsorted(self._first, claimed.end)
        is_unproven = claimed.each(
            np.logical_or, self._unproven[end_rows] > self._unproven[begin_rows]
        )
        counts = self._counts[end_rows] - self._counts[begin_rows]
        is_whole = claimed.each(np.logical_and, counts == claimed.end - claimed.first)
        sums = claimed.each(np.add, self._crcs[end_rows] - self._crcs[begin_rows])
        is_matched: Mask = is_unproven | (is_whole & (sums == claimed.crc_sum))
        return is_matched


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
        lengths = np.diff(self.begins, append=len(self._claims))
        return self._claims[np.repeat(chosen, lengths)]

    def each(self, over: np.ufunc, of_stretches: NDArray[Any]) -> NDArray[Any]:
        return over.reduceat(of_stretches, self.begins)

    def within(self, offsets: Intervals) -> Mask:
        """Returns the mask of claims that are within these offsets."""
        if not offsets:
            return np.zeros(len(self.begins), np.bool_)
        begin, end = np.array(offsets, np.int64).T
        interval_rows = np.searchsorted(begin, self.first, "right") - 1
        is_inside = (interval_rows >= 0) & (end[np.maximum(interval_rows, 0)] >= self.end)
        return self.each(np.logical_and, is_inside)


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
    ordered_batches = batches[np.argsort(batches["first"], kind="stable")]
    if (ordered_batches["first"][1:] >= ordered_batches["end"][:-1]).all():
        return (_Pool(ordered_batches),)
    return _Pool(_chosen(ordered_batches, 1)), _Pool(_chosen(ordered_batches, -1))


def _chosen(ordered: Listed, sign: int) -> Listed:
    """Chooses, of overlapping batches, the one of the higher epoch, or with -1 of the lower."""
    columns = (ordered[name].tolist() for name in ("first", "end", "epoch"))
    chosen_batches: list[tuple[int, int, int]] = []  # end, epoch, and which it is
    for number, (first, end, epoch) in enumerate(zip(*columns, strict=True)):
        if chosen_batches and chosen_batches[-1][0] > first:
            if sign * epoch <= sign * chosen_batches[-1][1]:
                continue
            chosen_batches.pop()
        chosen_batches.append((end, epoch, number))
    return ordered[np.array([number for _, _, number in chosen_batches], np.int64)]


def keep(chunk: Chunk, places: PassagePlaces) -> None:
    is_listing = chunk.passages_of("broker") & (places.count > 0)
    is_claiming = chunk.passages_of("agent") & (places.count > 0)
    if not (is_listing.any() or is_claiming.any()):
        return
    logs = _known(chunk, is_listing | is_claiming)
    _add_listed(chunk, places, is_listing, logs)
    _add_claims(chunk, is_claiming, logs)
    for (topic, partition), log_listing in logs.items():
        if wrong_stretches := log_listing.compare():
            _keep_wrong(chunk, topic, partition, wrong_stretches)
        log_listing.forget(chunk.entries.latest)
    chunk.connection.executemany(
        "INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?, ?, ?)",
        (
            (*key, *_packed(log_listing), chunk.entries.latest)
            for key, log_listing in logs.items()
            if log_listing.waits
        ),
    )
    chunk.connection.executemany(
        "DELETE FROM listed WHERE topic = ? AND partition = ?",
        (key for key, log_listing in logs.items() if not log_listing.waits),
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
    has_list = numbers(passages.struct.field("lists_batches").cast("int8")) > 0
    batches = Batches.of(passages, places.first)
    is_listed = (listing & has_list)[batches.passage]
    unlisted_rows = np.flatnonzero(listing & ~has_list)
    passage = np.concatenate((batches.passage[is_listed], unlisted_rows))
    rows = np.empty(len(passage), _BATCH)
    rows["first"] = np.concatenate((batches.first[is_listed], places.first[unlisted_rows]))
    ends = (batches.first + batches.count)[is_listed]
    rows["end"] = np.concatenate((ends, places.next_offset[unlisted_rows]))
    rows["crc"] = np.concatenate((batches.crc[is_listed], np.full(len(unlisted_rows), -1)))
    rows["epoch"] = passages.epoch[passage]
    rows["said"] = chunk.entries.latest
    for key, log_rows in _by_log(chunk, passage):
        log_batches = logs[key].batches
        logs[key].batches = (
            np.unique(np.concatenate((log_batches, rows[log_rows])))
            if len(log_batches)
            else rows[log_rows]
        )
    offsets = chunk.offsets
    offset_rows = np.flatnonzero(listing[offsets.passage])
    for key, log_rows in _by_log(chunk, offsets.passage[offset_rows]):
        first = offsets.first[offset_rows[log_rows]]
        columns = (
            passages.epoch[offsets.passage[offset_rows[log_rows]]],
            first,
            first + offsets.count[offset_rows[log_rows]],
        )
        listed_offsets = logs[key].offsets
        for epoch, begin, end in zip(*(column.tolist() for column in columns), strict=True):
            listed_offsets[epoch] = union(listed_offsets.get(epoch, ()), ((begin, end),))


def _add_claims(chunk: Chunk, claiming: Mask, logs: Mapping[Log, LogListing]) -> None:
    windows, offsets = chunk.windows, chunk.offsets
    crc_sum = np.zeros(len(chunk.passages), np.int64)
    np.add.at(crc_sum, windows.passage, windows.crc_sum)
    claim_rows = np.flatnonzero(claiming[offsets.passage])
    passage = offsets.passage[claim_rows]
    rows = np.empty(len(claim_rows), _CLAIM)
    rows["first"] = offsets.first[claim_rows]
    rows["end"] = rows["first"] + offsets.count[claim_rows]
    rows["begins"] = np.diff(passage, prepend=-1) != 0
    rows["crc_sum"] = crc_sum[passage]
    rows["epoch"] = chunk.passages.epoch[passage]
    rows["said"] = chunk.entries.latest
    for key, log_rows in _by_log(chunk, passage):
        logs[key].claims = _joined(logs[key].claims, rows[log_rows])


def _by_log(chunk: Chunk, passage: Numbers) -> Iterator[tuple[Log, Numbers]]:
    """Yields the rows of each partition."""
    if not len(passage):
        return
    topic, partition = chunk.topic[passage], chunk.passages.partition[passage]
    order = np.lexsort((partition, topic))
    is_change = (np.diff(topic[order]) != 0) | (np.diff(partition[order]) != 0)
    for rows in np.split(order, np.flatnonzero(is_change) + 1):
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
