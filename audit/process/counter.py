"""`penstock audit --count`: counts clusters whose brokers keep no ledger of their own, as
Penstock's brokers would.

Each cluster has a thread and a journal, `counters/{cluster}.counter` in the data directory. SIGTERM
and SIGINT stop it between two polls, a second signal at once; killed at any point it continues
where its journals end. Two counters never share a directory.

Every batch is read, and its CRC checked: a damaged one is named in the ledger and skipped. Only
committed events count. Offsets that readers skip hold no event: markers, aborted transactions,
compacted records.

A topic that was deleted and created again has another id, and is another topic. If brokers have no
ids, a log that ends before what was counted is taken for a new one.

A topic that may not be read is left out until it may, without affecting others. One that may not
even be seen is noticed only if the configuration names it or it was counted before.
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
from ground.signatures import keys
from ground.signatures.keys import BadKey, SigningKey
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
_LIVE_INTERVALS: Final = 3  # a partition polled so recently is followed as it grows


class _Stretch(NamedTuple):
    """A range of new offsets of a partition."""

    key: PartitionKey
    topic: TopicMetadata
    first: int
    end: int


class ClusterCounter:
    """Counts one cluster, on one thread. `trouble` is the reason why the last poll failed; empty if
    it succeeded."""

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
        self._seen: set[PartitionKey] = set()  # at the last poll
        self._live: set[PartitionKey] = set()
        self._looked_at = 0.0
        self._left_out: dict[str, str] = {}  # topics, and why

    def poll(self) -> None:
        """Counts new batches. Logs a failure; the next poll continues where this one ended."""
        left_out_topics: dict[str, str] = {}
        try:
            with ExitStack() as stack:
                self._counter.settle()
                brokers = stack.enter_context(Brokers(self._cluster.bootstrap, client_id=CLIENT_ID))
                for stretch in self._new(brokers, left_out_topics):
                    try:
                        self._read(brokers, stretch)
                    except NotAllowed as error:
                        if error.right.name != stretch.key.topic:
                            raise  # the right to write to the ledger is missing
                        left_out_topics[stretch.key.topic] = str(error)
                self._say_left_out(left_out_topics)
                self._counter.commit()
            trouble = ""
        except (ClientError, SchemaError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble and trouble != self.trouble:
            log.warning("counting failed, trying again reason=%r", trouble)
        elif self.trouble and not trouble:
            log.info("counting continues")
        self.trouble = trouble

    def _say_left_out(self, left_out: dict[str, str]) -> None:
        """Logs each topic once when it is left out, and once when it is counted again."""
        for topic in left_out.keys() - self._left_out.keys():
            log.warning("topic is not counted topic=%s reason=%r", topic, left_out[topic])
        for topic in self._left_out.keys() - left_out.keys():
            log.info("topic is counted again topic=%s", topic)
        self._left_out = left_out

    def _new(self, brokers: Brokers, left_out: dict[str, str]) -> list[_Stretch]:
        """Returns partitions that have grown since they were counted. Adds topics that may not be
        seen to those left out."""
        topics = self._topics(brokers)
        left_out.update(self._hidden(brokers, topics))
        keys = {
            TopicPartition(topic.name, partition.index): PartitionKey(
                topic.name, topic_id_text(topic.id), partition.index
            )
            for topic in topics.values()
            for partition in topic.partitions
            if partition.leader != NO_LEADER
        }
        ends = offsets_of(brokers, dict.fromkeys(keys, list_offsets.LATEST), committed=True)
        changed_targets = [
            target for target, key in keys.items() if self._next(key) != ends[target]
        ]
        starts = offsets_of(brokers, dict.fromkeys(changed_targets, list_offsets.EARLIEST))
        stretches = []
        for target in changed_targets:
            key = keys[target]
            topic = topics[target.topic]
            first = max(self._next(key), starts[target])
            if first > ends[target]:
                first = ends[target] if key.topic_id else starts[target]
                epoch = topic.partitions[key.partition].leader_epoch
                self._counter.go_back(key, first, leader_epoch=epoch)
            if first < ends[target]:
                stretches.append(_Stretch(key, topic, first, ends[target]))
        self._follow(set(keys.values()))
        return stretches

    def _topics(self, brokers: Brokers) -> dict[str, TopicMetadata]:
        return {
            name: topic
            for name, topic in all_topics(brokers).topics.items()
            if not topic.internal and topic.error is ErrorCode.none and self._is_wanted(name)
        }

    def _is_wanted(self, topic: str) -> bool:
        patterns = self._count.topics
        return not topic.startswith("_") and any(
            fnmatchcase(topic, pattern) for pattern in patterns
        )

    def _hidden(self, brokers: Brokers, shown: Collection[str]) -> dict[str, str]:
        """Returns topics missing in lists because we may not see them, and why."""
        named_topics = {topic for topic in self._count.topics if not _WILD & set(topic)}
        expected_topics = named_topics | {key.topic for key in self._counter.known}
        missing_topics = sorted(
            topic for topic in expected_topics if topic not in shown and self._is_wanted(topic)
        )
        if not missing_topics:
            return {}
        metadata = brokers.persist(lambda: brokers.refresh(missing_topics))
        hidden_topics: dict[str, str] = {}
        for name in missing_topics:
            try:
                metadata.topic(name, Operation.READ)
            except NotAllowed as error:
                hidden_topics[name] = str(error)
            except ClientError:
                continue  # it does not exist, or not yet
        return hidden_topics

    def _next(self, key: PartitionKey) -> int:
        position = self._counter.place(key)
        return -1 if position is None else position.next_offset

    def _read(self, brokers: Brokers, stretch: _Stretch) -> None:
        """Counts a stretch, continuing after each damaged batch."""
        key, topic, first, end = stretch
        epoch = topic.partitions[key.partition].leader_epoch
        seen_time = time.time_ns() // 1_000_000 if key in self._live else None
        self._counter.partition(key, first, leader_epoch=epoch, seen=seen_time)
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
                next_offset = min(error.first + error.count, end)
                if error.first < 0 or next_offset <= first:
                    raise  # the beginning of the next batch is unknown
                self._counter.nothing_up_to(error.first)
                self._counter.spoilt(error.first, next_offset - error.first, str(error))
                first = next_offset
            except OffsetsMissing as error:
                log.warning("counting skips a partition for now reason=%r", str(error))
                return
        self._counter.nothing_up_to(end)

    def _count_all(self, reader: PartitionReader) -> None:
        for batch in reader:
            self._counter.batch(batch.header, _whole(batch), gaps_are_empty=True)

    def _follow(self, keys: set[PartitionKey]) -> None:
        """Notes which partitions were polled lately, so that their new batches are recent."""
        now = self._clock()
        is_recent = now - self._looked_at < self._count.interval * _LIVE_INTERVALS
        self._live = self._seen & keys if is_recent else set()
        self._seen, self._looked_at = keys, now


def _whole(batch: FetchedBatch) -> Callable[[], memoryview]:
    return lambda: batch.data


def run_counter(config: AuditConfig) -> int:
    """Counts until a signal arrives, and returns the process's exit code."""
    stop_event = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # the next one ends the process
        stop_event.set()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, stop)
    try:
        with ExitStack() as stack:
            directory = Path(config.data_dir) / "counters"
            stack.enter_context(held(directory))
            certificates = CertificateWatch(config.certificate_files)
            stack.callback(certificates.stop)
            certificates.start()
            key = SigningKey.kept(directory / keys.FILE_NAME)
            counters = [
                _counter(config, name, directory, key, stack) for name in config.all_clusters
            ]
            _count(counters, config.count.interval, stop_event)
    except (AuditFailure, BadKey, CounterFileDamaged, OSError) as error:
        print(f"penstock audit: {error}", file=sys.stderr)
        return CANNOT_START
    log.info("stopped")
    return 0


def _count(counters: list[ClusterCounter], interval: float, stopping: threading.Event) -> None:
    threads = [
        threading.Thread(target=_keep_polling, args=(counter, interval, stopping), daemon=True)
        for counter in counters
    ]
    for thread in threads:
        thread.start()
    log.info("counting clusters=%d", len(threads))
    stopping.wait()
    for thread in threads:
        thread.join(_STOP_SECONDS)  # what is not in its journal by then is counted again


def _keep_polling(counter: ClusterCounter, interval: float, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            counter.poll()
        except Exception:
            log.exception("polling a cluster failed, trying again")
        stopping.wait(interval)


def _counter(
    config: AuditConfig, name: str, directory: Path, key: SigningKey, ends: ExitStack
) -> ClusterCounter:
    cluster = config.all_clusters[name]
    # The name comes from a configuration file, and must stay a single file name here.
    journal = CountingJournal(directory / f"{quote(name, safe='')}.counter", _KIND, key)
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
