"""Gaps that are made on purpose, each in a topic of its own to which nobody else writes.

    overtake    mirrors are away, and the source throws away records that they have not copied
    make-anew   a topic that was copied is deleted, and made again with other records
    lose-tail   the brokers of the source are killed, and all of them lose the end of a log that
                was copied; other records follow, fewer than were lost, or more

Before each, everything is well and copied. What the source had then is kept for the judge.
"""

import os
import random
import shutil
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.penstock.clusters.two_clusters import PREFIX, TwoClusters
from harness.processes.waiting import wait_until
from tests.campaigns.cluster.clients import PATIENCE, RETURN
from tests.campaigns.logs import read_batches
from tests.campaigns.mirror.judging import Gap
from tests.campaigns.mirror.watermarks import high, low
from tests.system.crash import value_of

CONFIGS: Final = {"segment.bytes": str(64 * 1024), "retention.ms": "-1"}
_BYTES_LOST: Final = 6000
_FIRST: Final = 40  # records, in a few batches


class Gaps:
    def __init__(self, clusters: TwoClusters, kept: Path, factor: int) -> None:
        """`kept`: where what the source had before is left, by partition."""
        self._clusters, self._kept, self._factor = clusters, kept, factor
        self.made: list[Gap] = []
        self._written = 0

    def prepare(self, kind: str) -> None:
        """The topic of this kind of gap, with some records."""
        self._create(kind)
        self._write(kind, _FIRST)

    def make(self, kind: str, chance: random.Random) -> None:
        """Everything is well. Nothing is done where one is made already."""
        if any(each.topic == kind for each in self.made):
            return
        source = self._clusters.source
        self._write(kind, 10)
        wait_until(
            lambda: high(self._clusters.target, PREFIX + kind) == high(source, kind) > 0,
            within=PATIENCE,
            what=f"{kind} is copied to its end",
            every=0.3,
        )
        kinds: dict[str, Callable[[random.Random], Gap]] = {
            "overtake": self._overtake,
            "make-anew": self._make_anew,
            "lose-tail": self._lose_tail,
        }
        self.made.append(kinds[kind](chance))

    def _overtake(self, chance: random.Random) -> Gap:
        clusters, topic = self._clusters, "overtake"
        running = [each for each in clusters.mirrors if clusters.alive(each)]
        for each in running:
            clusters.kill(each)
        copied = high(clusters.target, PREFIX + topic)
        self._write(topic, chance.randint(1, 20))
        begins = high(clusters.source, topic)
        self._write(topic, chance.randint(0, 20))
        self._keep(topic)
        admin = AdminClient({"bootstrap.servers": clusters.source.bootstrap, **RETURN})
        for future in admin.delete_records([TopicPartition(topic, 0, begins)]).values():
            future.result(60)
        for each in running:
            clusters.begin(each)
        why = f"the source begins at {begins}"
        return Gap(topic, 0, copied, (str(low(clusters.source, topic)),), why)

    def _make_anew(self, chance: random.Random) -> Gap:
        clusters, topic = self._clusters, "make-anew"
        copied = high(clusters.target, PREFIX + topic)
        self._keep(topic)
        admin = AdminClient({"bootstrap.servers": clusters.source.bootstrap, **RETURN})
        before = self._topic_id(admin, topic)
        admin.delete_topics([topic])[topic].result(60)
        self._wait_until_gone(topic)
        self._create(topic)
        self._write(topic, chance.choice([1, 30, 100]))
        anew = self._topic_id(admin, topic)
        why = f"the topic was made anew, with the id {anew} in place of {before}"
        return Gap(topic, 0, copied, (anew,), why, (before,))

    def _wait_until_gone(self, topic: str) -> None:
        source = self._clusters.source
        for broker in source.ids:
            wait_until(
                lambda broker=broker: not source.reported_by(broker, topic),
                within=PATIENCE,
                what=f"broker {broker} knows nothing of {topic}",
                every=0.2,
            )
        wait_until(
            lambda: not any(source.directory.glob(f"broker-*/data/{topic}-0")),
            within=PATIENCE,
            what=f"the logs of {topic} are gone",
            every=0.2,
        )

    @staticmethod
    def _topic_id(admin: AdminClient, topic: str) -> str:
        """As Kafka's tools print it."""
        found = admin.describe_topics(TopicCollection([topic]))[topic].result(60).topic_id
        halves = (found.get_most_significant_bits(), found.get_least_significant_bits())
        raw = b"".join((each % (1 << 64)).to_bytes(8, "big") for each in halves)
        return urlsafe_b64encode(raw).decode().rstrip("=")

    def _lose_tail(self, chance: random.Random) -> Gap:
        clusters, topic = self._clusters, "lose-tail"
        source = clusters.source
        copied = high(clusters.target, PREFIX + topic)
        for broker in source.ids:
            source.kill(broker)
        self._keep(topic)
        for log in source.directory.glob(f"broker-*/data/{topic}-0"):
            last = max(log.glob("*.log"))
            os.truncate(last, max(0, last.stat().st_size - _BYTES_LOST))
        source.start()
        source.wait_in_sync(topic, 1, within=PATIENCE)
        ends = high(source, topic)
        assert ends < copied, f"{topic} has lost nothing: it ends at {ends}"
        self._write(topic, chance.choice([1, 100]))
        why = f"the source has lost its tail from {ends} on"
        # It may also name where the two batches begin that differ, one of each side.
        last_copied = max(each.first for each in read_batches(self._kept / f"{topic}-0"))
        named = {str(ends), str(high(source, topic))}
        for log in source.directory.glob(f"broker-*/data/{topic}-0"):
            named |= {str(each.first) for each in read_batches(log) if each.last >= copied - 1}
        return Gap(topic, 0, copied, tuple(sorted(named)), why, (str(last_copied),))

    # Topics

    def _create(self, topic: str) -> None:
        source = self._clusters.source
        replicas = [source.ids[: self._factor]]
        in_sync = {"min.insync.replicas": str(min(2, self._factor))}
        source.create_topic(topic, replicas=replicas, configs={**CONFIGS, **in_sync})
        source.wait_in_sync(topic, 1, within=PATIENCE)

    def _write(self, topic: str, count: int) -> None:
        """Acknowledged when it returns, in batches of up to ten."""
        options = {"acks": "all", "enable.idempotence": True, "compression.type": "lz4", **RETURN}
        producer = Producer({"bootstrap.servers": self._clusters.source.bootstrap, **options})
        for number in range(self._written, self._written + count):
            producer.produce(topic, value_of(topic, number), partition=0)
            if number % 10 == 9 and producer.flush(PATIENCE):
                raise TimeoutError(f"{topic}: nothing is acknowledged")
        if producer.flush(PATIENCE):
            raise TimeoutError(f"{topic}: nothing is acknowledged")
        self._written += count

    def _keep(self, topic: str) -> None:
        """What the source has now: of its replicas the longest."""
        found = self._clusters.source.directory.glob(f"broker-*/data/{topic}-0")
        longest = max(found, key=lambda each: len(read_batches(each)))
        shutil.copytree(longest, self._kept / f"{topic}-0")
