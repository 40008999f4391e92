"""Reports what was copied to the target's ledger: entries of the tier `mirror`.

    lanes ─ headers of acknowledged batches ─▶ sums by partition ─ every few seconds ─▶ `_audit`

Rule 1: the copying loop decompresses no batch. The few that cross the end of a window are read
        again from the target, on this thread, for the times of their records.
Rule 2: entries form a journal that begins with the process. An unacknowledged entry is sent again
        byte for byte, before any new one, so no number is missing before a later one. What was not
        reported when a process was killed is in no journal. When a partition resumes, the ledger is
        asked up to where it was reported, and the batches since are read again from the target and
        reported before anything that is copied after them: otherwise a kill between the two would
        leave a permanent hole. The audit counts repeated claims once, but cannot split a claim, and
        the claims of a killed process may become visible late, when its broker's disk has them. So
        what is read again is reported batch by batch.
Rule 3: entries have no leader epoch. A copy that has lost its tail gets the same batches at the
        same offsets again.
Rule 4: a gap that was skipped is reported as a fault that an operator has accepted.
Rule 5: the mirror's own health is reported once a window: its silence shows that it is away.
Rule 6: while the ledger cannot be written, copying continues, and the sums grow. If they grow too
        large they are discarded: the audit then knows of the copy only by its brokers.

`begun` and `written` belong to the event loop, `trouble` may be read by any thread, the rest
belongs to the reporter's thread.
"""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from client.errors import ClientError, ErrorCode, Refused
from client.reading.fetch_session import Key
from ground.signatures.keys import SigningKey
from ledger.counting.batches import PartitionCount
from ledger.counting.entries import Speaker, entries_of, entry_of, halves
from ledger.counting.journal import PartitionKey
from ledger.counting.sealed_entries import SealedEntry, sealed
from ledger.health import HealthProbe, HealthReports
from ledger.names import VERSION
from ledger.proofs import Chain
from mirror.config import MirrorConfig
from mirror.partitions.copied_count import CopiedCount, Spread
from mirror.partitions.gaps import Gap
from mirror.partitions.partition import CopiedPartition
from mirror.topics import TopicCopy
from schemas.errors import SchemaError
from wire.record_batches.batch import BatchHeader

log = logging.getLogger(__name__)

APP: Final = "penstock-mirror"
KIND: Final = "mirror"  # prefix of its journals' names
_RANDOM_BYTES: Final = 16
_MOST_WEIGHT: Final = 16 * 1024 * 1024  # size of waiting sums
_MOST_OPENED: Final = 256  # batches across windows that are read between two entries
_MOST_ALONE: Final = 10_000  # batches read again that are reported individually
_STOP_SECONDS: Final = 15.0
_TOO_LARGE: Final = {ErrorCode.message_too_large, ErrorCode.record_list_too_large}

Json = dict[str, Any]
_Counts = list[tuple[PartitionKey, CopiedCount]]


class Sender(Protocol):
    """Writes to `_audit` of the target."""

    def encode(self, entry: Json) -> bytes:
        """Returns the entry as it is written. Raises ClientError, SchemaError."""

    def send(self, entry: SealedEntry) -> None:
        """Sends an entry and waits until the ledger has it. Raises ClientError, SchemaError."""

    def close(self) -> None: ...


class StoredBatch(NamedTuple):
    """A batch of a copy; `times` reads the times of its records, if possible."""

    header: BatchHeader
    times: Callable[[], Sequence[int]]


class Copies(Protocol):
    """The logs of the copies, and their state in the ledger. Raises ClientError, SchemaError."""

    def times(self, key: PartitionKey, batch: Spread) -> Sequence[int]:
        """The times of a batch's records; empty if they cannot be read."""

    def reported_ends(self, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        """The end offsets in the ledger, for those of the partitions that it has."""

    def batches(self, key: PartitionKey, first: int, end: int) -> Iterator[StoredBatch]:
        """The batches between these offsets."""

    def close(self) -> None: ...


class _Beginning(NamedTuple):
    """The offset `end` at which a partition resumed. `before` is the count that this process has
    not reported, up to offset `counted_end`; -1 if there is none."""

    counted_end: int
    end: int
    before: CopiedCount | None
    compacts: bool


class LedgerReporter:
    """Reports copied batches. Belongs to one thread."""

    def __init__(
        self,
        config: MirrorConfig,
        sender: Sender,
        copies: Copies,
        key: SigningKey,
        now_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        *,
        probe: HealthProbe | None = None,
    ) -> None:
        """Without a `probe`, the mirror's health is not reported."""
        self.trouble = ""  # the reason if nothing is reported
        self._source = config.source.cluster
        self._window_millis = config.window * 1000
        self._interval = config.ledger_interval
        self._sender = sender
        self._copies = copies
        self._now_millis = now_millis
        self._probe = probe
        self._health_reports = HealthReports(config.window)
        self._speaker = Speaker(
            source=f"{KIND}-{secrets.token_hex(_RANDOM_BYTES)}",
            host=socket.gethostname(),
            app=APP,
            cluster=config.target.cluster,
            window_millis=self._window_millis,
            tier="mirror",
        )
        self._lock = threading.Lock()  # protects the next three
        self._keys: dict[Key, PartitionKey] = {}
        self._counts: dict[PartitionKey, CopiedCount] = {}
        self._begun: dict[PartitionKey, _Beginning] = {}
        self._next_seq = 0
        self._pending: list[Json] = []
        self._chain = Chain(key)  # of the entries that were sent
        # The first pending entry, once it may have been sent, and the chain with it.
        self._sealed: tuple[SealedEntry, Chain] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    # The event loop

    def begun(self, copy: TopicCopy, partition: CopiedPartition) -> None:
        """Notes that copying of a partition resumed at its end."""
        if copy.origin is not None and copy.origin.of_penstocks_own:
            return
        topic, index = partition.here
        key, end = PartitionKey(topic, copy.topic_id, index), partition.copied
        with self._lock:
            self._keys[partition.here] = key
            count = self._counts.get(key)
            if count is None or count.count.next_offset < end:
                new_count = CopiedCount(PartitionCount(*key, end, origin=copy.origin))
                beginning = self._begun.get(key)
                if beginning is None:
                    counted_end = -1 if count is None else count.count.next_offset
                    beginning = _Beginning(counted_end, end, count, partition.compacts)
                elif count is not None:  # to be read again, except for accepted gaps
                    new_count.gaps = count.gaps
                self._begun[key] = beginning._replace(end=end)
                self._counts[key] = new_count
            self._counts[key].gap_at = end if partition.position > end else -1

    def written(self, partition: CopiedPartition, headers: Sequence[BatchHeader]) -> None:
        """Notes that the target has these batches."""
        with self._lock:
            key = self._keys.get(partition.here)
            if key is not None:
                self._counts[key].add(
                    headers, self._window_millis, gaps_are_empty=partition.compacts
                )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Reports the remaining counts, if the ledger accepts them in time."""
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)

    # The thread

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self.look()
        self.look()
        self._sender.close()
        self._copies.close()

    def look(self) -> None:
        """Reports new counts. Errors are logged, and the next call continues."""
        try:
            self._send()
            self._report_health()
            for counts in (self._counted, self._read_again, self._counted):
                self._number(counts())
                self._send()
            trouble = ""
        except (ClientError, SchemaError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
            self._forget_if_too_much()
        except Exception as error:  # a bug: copying continues
            log.exception("reporting failed, trying again")
            trouble = f"{type(error).__name__}: {error}"
        if trouble and not self.trouble:
            log.warning("ledger waits reason=%r", trouble)
        elif self.trouble and not trouble:
            log.info("ledger goes on")
        self.trouble = trouble

    def _send(self) -> None:
        while self._pending:
            entry = self._pending[0]
            is_own = entry["tier"] != "operator"  # an operator's entry is a journal of its own
            if self._sealed is None:
                chain = copy(self._chain) if is_own else Chain(self._chain.key)
                self._sealed = sealed(entry, chain, self._sender.encode, time.monotonic()), chain
            sealed_entry, chain = self._sealed
            try:
                self._sender.send(sealed_entry)
            except Refused as error:
                parts = halves(entry) if error.code in _TOO_LARGE else []
                if not parts:
                    raise
                self._pending[:1] = [parts[0], *map(self._numbered, parts[1:])]
            else:
                del self._pending[0]
                if is_own:
                    self._chain = chain
            self._sealed = None

    def _report_health(self) -> None:
        """Before everything else, as reading batches again may take long."""
        health = self._probe.health() if self._probe else None
        if health is None or not self._health_reports.is_due(health):
            return
        self._pending.append(
            entry_of(
                self._speaker,
                seq=self._next_seq,
                now_millis=self._now_millis(),
                health=[health.json],
            )
        )
        self._next_seq += 1
        self._health_reports.reported(health)
        self._send()

    def _numbered(self, entry: Json) -> Json:
        self._next_seq += 1
        return {**entry, "header": {**entry["header"], "seq": self._next_seq - 1}}

    def _counted(self) -> _Counts:
        """Counts since the last call, of partitions with nothing older to report."""
        with self._lock:
            counts = [
                (key, count)
                for key, count in self._counts.items()
                if not count.is_empty and key not in self._begun
            ]
            for key, count in counts:
                self._counts[key] = _after(key, count)
        self._settle(counts)
        return counts

    def _settle(self, counts: _Counts) -> None:
        batch_count = 0
        for key, count in counts:
            for batch in count.spread:
                batch_count += 1
                times = self._copies.times(key, batch) if batch_count <= _MOST_OPENED else ()
                count.settle(batch, times, self._window_millis)
            count.spread.clear()

    def _read_again(self) -> _Counts:
        """Counts of resumed partitions that the ledger does not have yet."""
        with self._lock:
            beginnings = dict(self._begun)
            origins = {key: self._counts[key].count.origin for key in beginnings}
        old_counts = [
            (key, old_count)
            for key, beginning in beginnings.items()
            if (old_count := beginning.before)
        ]
        self._settle(old_counts)
        nonempty = {key: beginning for key, beginning in beginnings.items() if beginning.end > 0}
        reported_ends = self._copies.reported_ends(nonempty) if nonempty else {}
        stored_counts: _Counts = []
        for key, beginning in nonempty.items():
            first = max(beginning.counted_end, reported_ends.get(key, -1))
            if 0 <= first < beginning.end:
                new_count = PartitionCount(*key, first, origin=origins[key])
                single_batches = _MOST_ALONE - len(stored_counts)
                stored_counts += [
                    (key, count) for count in self._stored(new_count, beginning, single_batches)
                ]
        with self._lock:  # partitions that resumed meanwhile are kept for the next call
            self._begun = {
                key: beginning
                for key, beginning in self._begun.items()
                if beginning is not beginnings.get(key)
            }
        return [
            (key, count) for key, count in chain(old_counts, stored_counts) if not count.is_empty
        ]

    def _stored(
        self, new_count: PartitionCount, beginning: _Beginning, single_batches: int
    ) -> Iterator[CopiedCount]:
        """Counts of the stored batches: the first ones individually, the rest together."""
        key = PartitionKey(new_count.topic, new_count.topic_id, new_count.partition)
        count = CopiedCount(new_count)
        for number, batch in enumerate(
            self._copies.batches(key, new_count.next_offset, beginning.end)
        ):
            if number < single_batches and not count.is_empty:
                yield count
                count = _after(key, count)
            count.add([batch.header], self._window_millis, gaps_are_empty=beginning.compacts)
            for spread in count.spread:
                count.settle(spread, batch.times(), self._window_millis)
            count.spread.clear()
        yield count

    def _number(self, counts: Sequence[tuple[PartitionKey, CopiedCount]]) -> None:
        now = self._now_millis()
        entries = entries_of(
            (count.count for _, count in counts),
            self._speaker,
            seq=self._next_seq,
            now_millis=now,
        )
        self._next_seq += len(entries)
        self._pending += entries
        self._pending += [
            self._accepted(key, gap, now) for key, count in counts for gap in count.gaps
        ]

    def _accepted(self, key: PartitionKey, gap: Gap, now: int) -> Json:
        """An entry as of an operator: a journal of its own, with one entry."""
        source = f"operator-{secrets.token_hex(_RANDOM_BYTES)}"
        is_new = not gap.end
        reason = "when it was first copied" if is_new else "before they were copied: --accept-gap"
        header = {"time": now, "host": self._speaker.host, "app": APP, "source": source}
        return {
            "header": {**header, "seq": 0, "position": 0},
            "version": VERSION,
            "tier": "operator",
            "cluster": self._speaker.cluster,
            "accepted": [
                {
                    **key._asdict(),
                    "offsets": [{"first": gap.end, "count": gap.begins - gap.end}],
                    "reason": f"{self._source} had deleted them {reason}",
                    "operator": f"{APP} on {self._speaker.host}",
                }
            ],
        }

    def _forget_if_too_much(self) -> None:
        with self._lock:
            old_counts = [
                old_count for beginning in self._begun.values() if (old_count := beginning.before)
            ]
            if (
                sum(count.weight for count in chain(old_counts, self._counts.values()))
                <= _MOST_WEIGHT
            ):
                return
            for key, count in self._counts.items():
                self._counts[key] = _after(key, count)
            for key, beginning in self._begun.items():
                self._begun[key] = beginning._replace(before=None)
        log.warning("counts discarded: the ledger could not be written for too long")


def _after(key: PartitionKey, previous: CopiedCount) -> CopiedCount:
    """The count that follows."""
    new_count = PartitionCount(*key, previous.count.next_offset, origin=previous.count.origin)
    return CopiedCount(new_count, previous.gap_at)
