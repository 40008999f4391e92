"""What a mirror tells the ledger of the target: entries of the tier `mirror`.

    lanes ─ headers of what the target has ─▶ sums by partition ─ every few seconds ─▶ `_audit`

Rule 1: no batch is opened in the copying loop. Few reach over the end of a window; those are read
        again from the target, behind the loop's back, for the times of their records.
Rule 2: entries are a journal that begins with the process. One that was not acknowledged is sent
        again as it is, and nothing new before it: so no number is left out that a later one
        follows. What was not told when a process is killed is in no journal. Where a partition goes
        on, the ledger is asked up to where it was told, and what lies between is read again from
        the target, and told then; what was copied after it is told after it: else who is killed
        between the two would leave a hole that nobody looks for. The audit takes once what is told
        twice, but cannot part what is told together: and what a killed one has told may be seen
        only when its broker's disk has it. So what is read again is told batch by batch.
Rule 3: they name no leader epoch. A copy that has lost its tail gets the same batches at the same
        offsets again: what was copied once is as it was.
Rule 4: a gap that was passed over is told as a fault that an operator has accepted.
Rule 5: while the ledger cannot be written to, copying goes on, and sums grow. If they grow too
        large they are forgotten: the audit then knows of the copy by its brokers alone.

`begun` and `written` belong to the event loop, `trouble` is read by any thread, the rest is the
teller's own thread.
"""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from client.errors import ClientError, ErrorCode, Refused
from client.fetch_session import Key
from ledger.counting.batches import PartitionCount
from ledger.counting.entries import Speaker, entries_of, halves
from ledger.counting.journal import PartitionKey
from ledger.names import VERSION
from mirror.batches import Gap
from mirror.config import MirrorConfig
from mirror.counted import CopiedCount, Spread
from mirror.partition import CopiedPartition
from mirror.topics import TopicCopy
from schemas.errors import SchemaError
from wire.batch import BatchHeader

log = logging.getLogger(__name__)

APP: Final = "penstock-mirror"
KIND: Final = "mirror"  # begins the names of its journals
_RANDOM_BYTES: Final = 16
_MOST_WEIGHT: Final = 16 * 1024 * 1024  # of sums that wait
_MOST_OPENED: Final = 256  # batches that reach over windows, from one entry to the next
_MOST_ALONE: Final = 10_000  # batches that are read again, and told each for itself
_STOP_SECONDS: Final = 15.0
_TOO_LARGE: Final = {ErrorCode.message_too_large, ErrorCode.record_list_too_large}

Json = dict[str, Any]
_Counts = list[tuple[PartitionKey, CopiedCount]]


class Sender(Protocol):
    """To `_audit` of the target."""

    def send(self, entry: Json) -> None:
        """Returns when the ledger has it. Raises ClientError, SchemaError."""

    def close(self) -> None: ...


class Lying(NamedTuple):
    """A batch of a copy, and how the times of its records are read, if they can be."""

    header: BatchHeader
    times: Callable[[], Sequence[int]]


class Copies(Protocol):
    """The logs of the copies, and what was told of them before. Raises ClientError, SchemaError."""

    def times(self, key: PartitionKey, batch: Spread) -> Sequence[int]:
        """Of its records; nothing if they cannot be read."""

    def told(self, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        """Up to where, of those of which the ledger says anything."""

    def lying(self, key: PartitionKey, first: int, end: int) -> Iterator[Lying]:
        """The batches that lie there."""

    def close(self) -> None: ...


class _Beginning(NamedTuple):
    """A partition goes on at `end`. What this process knew of it before, but had not told yet, is
    `before`, which reaches up to `told`; -1: it knew nothing."""

    told: int
    end: int
    before: CopiedCount | None
    compacts: bool


class Telling:
    """See the module."""

    def __init__(
        self,
        config: MirrorConfig,
        sender: Sender,
        copies: Copies,
        now_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.trouble = ""  # why nothing is told just now
        self._source = config.source.cluster
        self._window_millis = config.window * 1000
        self._interval = config.ledger_interval
        self._sender = sender
        self._copies = copies
        self._now_millis = now_millis
        self._speaker = Speaker(
            source=f"{KIND}-{secrets.token_hex(_RANDOM_BYTES)}",
            host=socket.gethostname(),
            app=APP,
            cluster=config.target.cluster,
            window_millis=self._window_millis,
            tier="mirror",
        )
        self._lock = threading.Lock()  # of the next three
        self._keys: dict[Key, PartitionKey] = {}
        self._counts: dict[PartitionKey, CopiedCount] = {}
        self._begun: dict[PartitionKey, _Beginning] = {}
        self._next_seq = 0
        self._pending: list[Json] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telling", daemon=True)

    # The event loop

    def begun(self, copy: TopicCopy, partition: CopiedPartition) -> None:
        """It goes on where the copy ends."""
        if copy.origin is not None and copy.origin.of_penstocks_own:
            return
        topic, index = partition.here
        key, end = PartitionKey(topic, copy.topic_id, index), partition.copied
        with self._lock:
            self._keys[partition.here] = key
            known = self._counts.get(key)
            if known is None or known.count.next_offset < end:
                fresh = CopiedCount(PartitionCount(*key, end, origin=copy.origin))
                earlier = self._begun.get(key)
                if earlier is None:
                    told = -1 if known is None else known.count.next_offset
                    earlier = _Beginning(told, end, known, partition.compacts)
                elif known is not None:  # is read again, but for what was accepted
                    fresh.gaps = known.gaps
                self._begun[key] = earlier._replace(end=end)
                self._counts[key] = fresh
            self._counts[key].gap_at = end if partition.position > end else -1

    def written(self, partition: CopiedPartition, headers: Sequence[BatchHeader]) -> None:
        """The target has these."""
        with self._lock:
            key = self._keys.get(partition.here)
            if key is not None:
                self._counts[key].add(
                    headers, self._window_millis, gaps_are_empty=partition.compacts
                )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What is left is told, if the ledger takes it in time."""
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
        """Tell what is new. What goes wrong is said, and the next look goes on."""
        try:
            self._send()
            for counts in (self._counted, self._read_again, self._counted):
                self._number(counts())
                self._send()
            trouble = ""
        except (ClientError, SchemaError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
            self._forget_if_too_much()
        except Exception as error:  # a bug of ours: copying goes on
            log.exception("telling failed, trying again")
            trouble = f"{type(error).__name__}: {error}"
        if trouble and not self.trouble:
            log.warning("ledger waits reason=%r", trouble)
        elif self.trouble and not trouble:
            log.info("ledger goes on")
        self.trouble = trouble

    def _send(self) -> None:
        while self._pending:
            entry = self._pending[0]
            try:
                self._sender.send(entry)
            except Refused as error:
                parts = halves(entry) if error.code in _TOO_LARGE else []
                if not parts:
                    raise
                self._pending[:1] = [parts[0], *map(self._numbered, parts[1:])]
                continue
            del self._pending[0]

    def _numbered(self, entry: Json) -> Json:
        self._next_seq += 1
        return {**entry, "header": {**entry["header"], "seq": self._next_seq - 1}}

    def _counted(self) -> _Counts:
        """Since the last time, of partitions of which nothing is to be told before."""
        with self._lock:
            counts = [
                (key, each)
                for key, each in self._counts.items()
                if not each.is_empty and key not in self._begun
            ]
            for key, each in counts:
                self._counts[key] = _after(key, each)
        self._settle(counts)
        return counts

    def _settle(self, counts: _Counts) -> None:
        opened = 0
        for key, each in counts:
            for batch in each.spread:
                opened += 1
                times = self._copies.times(key, batch) if opened <= _MOST_OPENED else ()
                each.settle(batch, times, self._window_millis)
            each.spread.clear()

    def _read_again(self) -> _Counts:
        """Of partitions that have begun, what the ledger does not know yet."""
        with self._lock:
            begun = dict(self._begun)
            origins = {key: self._counts[key].count.origin for key in begun}
        before = [(key, each.before) for key, each in begun.items() if each.before is not None]
        self._settle(before)
        unknown = {key: each for key, each in begun.items() if each.end > 0}
        told = self._copies.told(unknown) if unknown else {}
        between: _Counts = []
        for key, each in unknown.items():
            first = max(each.told, told.get(key, -1))
            if 0 <= first < each.end:
                fresh = PartitionCount(*key, first, origin=origins[key])
                alone = _MOST_ALONE - len(between)
                between += [(key, count) for count in self._lying(fresh, each, alone)]
        with self._lock:  # who has begun once more meanwhile is looked at once more
            self._begun = {
                key: each for key, each in self._begun.items() if each is not begun.get(key)
            }
        return [(key, each) for key, each in chain(before, between) if not each.is_empty]

    def _lying(self, fresh: PartitionCount, begun: _Beginning, alone: int) -> Iterator[CopiedCount]:
        """What lies there from here on: so many batches each for itself, and then all others."""
        key = PartitionKey(fresh.topic, fresh.topic_id, fresh.partition)
        count = CopiedCount(fresh)
        for number, batch in enumerate(self._copies.lying(key, fresh.next_offset, begun.end)):
            if number < alone and not count.is_empty:
                yield count
                count = _after(key, count)
            count.add([batch.header], self._window_millis, gaps_are_empty=begun.compacts)
            for spread in count.spread:
                count.settle(spread, batch.times(), self._window_millis)
            count.spread.clear()
        yield count

    def _number(self, counts: Sequence[tuple[PartitionKey, CopiedCount]]) -> None:
        now = self._now_millis()
        entries = entries_of(
            (each.count for _, each in counts),
            self._speaker,
            seq=self._next_seq,
            now_millis=now,
        )
        self._next_seq += len(entries)
        self._pending += entries
        self._pending += [self._accepted(key, gap, now) for key, e in counts for gap in e.gaps]

    def _accepted(self, key: PartitionKey, gap: Gap, now: int) -> Json:
        """As an operator says it: a journal of its own, with one entry."""
        source = f"operator-{secrets.token_hex(_RANDOM_BYTES)}"
        why = "when it was first copied" if not gap.end else "before they were copied: --accept-gap"
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
                    "reason": f"{self._source} had deleted them {why}",
                    "operator": f"{APP} on {self._speaker.host}",
                }
            ],
        }

    def _forget_if_too_much(self) -> None:
        with self._lock:
            before = [each.before for each in self._begun.values() if each.before is not None]
            if sum(each.weight for each in chain(before, self._counts.values())) <= _MOST_WEIGHT:
                return
            for key, each in self._counts.items():
                self._counts[key] = _after(key, each)
            for key, beginning in self._begun.items():
                self._begun[key] = beginning._replace(before=None)
        log.warning("what was copied is forgotten: the ledger has waited for too long")


def _after(key: PartitionKey, told: CopiedCount) -> CopiedCount:
    """Where the next count begins."""
    fresh = PartitionCount(*key, told.count.next_offset, origin=told.count.origin)
    return CopiedCount(fresh, told.gap_at)
