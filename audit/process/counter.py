"""`penstock audit --count`: counts clusters whose brokers keep no ledger of their own, as these
would count them if they were Penstock's.

Each cluster has a thread and a journal, `counters/{cluster}.counter` in the data directory. SIGTERM
and SIGINT stop it between two looks, a second one at once; killed at any point it goes on where its
journals say. Two of them never share a directory.

Every batch is read, and its CRC looked at: one that is not what was written is named in the ledger
and passed over. Only what is committed counts. Offsets that a reader passes over hold no event:
markers, what was aborted, what compaction took.

A topic that was made anew has another id, and is another one. Where brokers have no ids, a log that
ends before what was counted is taken for a new one.

A topic that may not be read is left out until it may, and keeps no other from being counted. If it
may not even be seen, that is known of those that the configuration names, and of those that were
counted before.
"""

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple
from urllib.parse import quote

from audit.configuration.config import AuditConfig, Cluster, CountingConfig
from audit.errors import AuditFailure
from audit.process.data_directory import held
from client.admin.topics import all_topics
from client.connection.brokers import Brokers
from client.connection.metadata import NO_LEADER, TopicMetadata
from client.errors import ClientError, Corrupt, ErrorCode, NotAllowed, OffsetsMissing
from client.producing.delivery import TopicPartition
from client.reading.fetcher import FetchedBatch
from client.reading.offsets import offsets_of
from client.reading.partition_reader import PartitionReader
from ground.tls.certificate_expiry import CertificateWatch
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CounterFileDamaged, CountingJournal, PartitionKey
from ledger.counting.publishing import LedgerWriter
from ledger.names import topic_id_text
from schemas.errors import SchemaError
from wire.acls import Operation
from wire.messages import list_offsets

log = logging.getLogger(__name__)

CANNOT_START: Final = 1
_KIND: Final = "counter"
_STOP_SECONDS: Final = 10.0
CLIENT_ID: Final = "penstock-count"
_WILD: Final = frozenset("*?[")
_LIVE_INTERVALS: Final = 3  # a partition that was looked at so recently is followed as it grows


class _Stretch(NamedTuple):
    """What is new in a partition."""

    key: PartitionKey
    topic: TopicMetadata
    first: int
    end: int


class ClusterCounter:
    """One thread. `trouble` is why the last look did not come to its end; empty if it did."""

    def __init__(
        self,
        cluster: Cluster,
        count: CountingConfig,
        counter: Counter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trouble = ""
        self._cluster = cluster
        self._count = count
        self._counter = counter
        self._clock = clock
        self._seen: set[PartitionKey] = set()  # at the last look
        self._live: set[PartitionKey] = set()
        self._looked_at = 0.0
        self._left_out: dict[str, str] = {}  # topics, and why

    def look(self) -> None:
        """Count what is new. What goes wrong is said, and the next look goes on."""
        left_out: dict[str, str] = {}
        try:
            with ExitStack() as ends:
                self._counter.settle()
                brokers = ends.enter_context(Brokers(self._cluster.bootstrap, client_id=CLIENT_ID))
                for stretch in self._new(brokers, left_out):
                    try:
                        self._read(brokers, stretch)
                    except NotAllowed as error:
                        if error.right.name != stretch.key.topic:
                            raise  # it is the ledger that may not be written
                        left_out[stretch.key.topic] = str(error)
                self._say_left_out(left_out)
                self._counter.commit()
            trouble = ""
        except (ClientError, SchemaError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble and trouble != self.trouble:
            log.warning("counting waits reason=%r", trouble)
        elif self.trouble and not trouble:
            log.info("counting goes on")
        self.trouble = trouble

    def _say_left_out(self, found: dict[str, str]) -> None:
        """Once of each topic, and once when it is counted again."""
        for topic in found.keys() - self._left_out.keys():
            log.warning("topic is not counted topic=%s reason=%r", topic, found[topic])
        for topic in self._left_out.keys() - found.keys():
            log.info("topic is counted again topic=%s", topic)
        self._left_out = found

    def _new(self, brokers: Brokers, left_out: dict[str, str]) -> list[_Stretch]:
        """Partitions in which something was written since they were counted. Topics that may not
        be seen are put among those that are left out."""
        topics = self._topics(brokers)
        left_out.update(self._hidden(brokers, topics))
        keys = {
            TopicPartition(topic.name, each.index): PartitionKey(
                topic.name, topic_id_text(topic.id), each.index
            )
            for topic in topics.values()
            for each in topic.partitions
            if each.leader != NO_LEADER
        }
        ends = offsets_of(brokers, dict.fromkeys(keys, list_offsets.LATEST), committed=True)
        changed = [at for at, key in keys.items() if self._next(key) != ends[at]]
        starts = offsets_of(brokers, dict.fromkeys(changed, list_offsets.EARLIEST))
        found = []
        for at in changed:
            key = keys[at]
            topic = topics[at.topic]
            first = max(self._next(key), starts[at])
            if first > ends[at]:
                first = ends[at] if key.topic_id else starts[at]
                epoch = topic.partitions[key.partition].leader_epoch
                self._counter.go_back(key, first, leader_epoch=epoch)
            if first < ends[at]:
                found.append(_Stretch(key, topic, first, ends[at]))
        self._follow(set(keys.values()))
        return found

    def _topics(self, brokers: Brokers) -> dict[str, TopicMetadata]:
        return {
            name: topic
            for name, topic in all_topics(brokers).topics.items()
            if not topic.internal and topic.error is ErrorCode.none and self._is_wanted(name)
        }

    def _is_wanted(self, topic: str) -> bool:
        patterns = self._count.topics
        return not topic.startswith("_") and any(fnmatchcase(topic, each) for each in patterns)

    def _hidden(self, brokers: Brokers, shown: Collection[str]) -> dict[str, str]:
        """Topics that are left out of lists, as we may not see them, and why."""
        named = {each for each in self._count.topics if not _WILD & set(each)}
        expected = named | {key.topic for key in self._counter.known}
        missing = sorted(each for each in expected if each not in shown and self._is_wanted(each))
        if not missing:
            return {}
        known = brokers.persist(lambda: brokers.refresh(missing))
        hidden: dict[str, str] = {}
        for name in missing:
            try:
                known.topic(name, Operation.READ)
            except NotAllowed as error:
                hidden[name] = str(error)
            except ClientError:
                continue  # it is not there, or not yet
        return hidden

    def _next(self, key: PartitionKey) -> int:
        place = self._counter.place(key)
        return -1 if place is None else place.next_offset

    def _read(self, brokers: Brokers, stretch: _Stretch) -> None:
        """All of the stretch, from behind each batch that is not what was written."""
        key, topic, first, end = stretch
        epoch = topic.partitions[key.partition].leader_epoch
        seen = time.time_ns() // 1_000_000 if key in self._live else None
        self._counter.partition(key, first, leader_epoch=epoch, seen=seen)
        while first < end:
            reader = PartitionReader(
                brokers,
                key.topic,
                key.partition,
                first,
                end,
                topic_id="" if topic.id is None else str(topic.id),
                from_within=True,
            )
            try:
                self._count_all(reader)
                first = end
            except Corrupt as error:
                behind = min(error.first + error.count, end)
                if error.first < 0 or behind <= first:
                    raise  # nobody knows where the next one begins
                self._counter.nothing_up_to(error.first)
                self._counter.spoilt(error.first, behind - error.first, str(error))
                first = behind
            except OffsetsMissing as error:
                log.warning("counting passes over a partition for now reason=%r", str(error))
                return
        self._counter.nothing_up_to(end)

    def _count_all(self, reader: PartitionReader) -> None:
        for batch in reader:
            self._counter.batch(batch.header, _whole(batch), gaps_are_empty=True)

    def _follow(self, keys: set[PartitionKey]) -> None:
        """Which of these were looked at lately, so that what is new there came since then."""
        now = self._clock()
        recent = now - self._looked_at < self._count.interval * _LIVE_INTERVALS
        self._live = self._seen & keys if recent else set()
        self._seen, self._looked_at = keys, now


def _whole(batch: FetchedBatch) -> Callable[[], memoryview]:
    return lambda: batch.data


def run_counter(config: AuditConfig) -> int:
    """Count until a signal comes; the process's exit code."""
    told = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # the next one ends the process
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        with ExitStack() as ends:
            directory = Path(config.data_dir) / "counters"
            ends.enter_context(held(directory))
            certificates = CertificateWatch(config.certificate_files)
            ends.callback(certificates.stop)
            certificates.start()
            counters = [_counter(config, name, directory, ends) for name in config.all_clusters]
            _count(counters, config.count.interval, told)
    except (AuditFailure, CounterFileDamaged, OSError) as error:
        print(f"penstock audit: {error}", file=sys.stderr)
        return CANNOT_START
    log.info("stopped")
    return 0


def _count(counters: list[ClusterCounter], interval: float, told: threading.Event) -> None:
    threads = [
        threading.Thread(target=_keep_looking, args=(each, interval, told), daemon=True)
        for each in counters
    ]
    for thread in threads:
        thread.start()
    log.info("counting clusters=%d", len(threads))
    told.wait()
    for thread in threads:
        thread.join(_STOP_SECONDS)  # what it has not journalled by then is counted again


def _keep_looking(counter: ClusterCounter, interval: float, told: threading.Event) -> None:
    while not told.is_set():
        try:
            counter.look()
        except Exception:
            log.exception("a look failed, trying again")
        told.wait(interval)


def _counter(config: AuditConfig, name: str, directory: Path, ends: ExitStack) -> ClusterCounter:
    cluster = config.all_clusters[name]
    # A name is anything that somebody has written into a file: it must stay one name here.
    journal = CountingJournal(directory / f"{quote(name, safe='')}.counter", _KIND)
    speaker = Speaker(
        source=journal.source,
        host=socket.gethostname(),
        app=CLIENT_ID,
        cluster=name,
        window_millis=config.window * 1000,
    )
    writer = LedgerWriter(cluster.bootstrap, cluster.registry_address, client_id=CLIENT_ID)
    ends.callback(writer.close)
    return ClusterCounter(cluster, config.count, Counter(journal, speaker, writer))
