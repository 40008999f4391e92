"""A mirror of a hundred lines, without any of Penstock's mirror's code, that can be broken.

It copies one partition after the other, an answer of Fetch at a time, and knows nothing of other
mirrors, groups, or limits. `Flaws` says what it does wrong; with none of them it must come through
the same scripts as the real one.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import crc32c
import msgspec
import yaml
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.system.raw import (
    FETCH,
    PRODUCE,
    Closed,
    RawConnection,
    fetch_body,
    int16,
    int32,
    read_fetched,
    read_produced,
    string,
)

ID: Final = "penstock-mirror"
MARK: Final = "penstock.mirror.of"
ACCEPT: Final = "penstock.mirror.accept.gap"
OUT_OF_RANGE: Final = 1
_BYTES: Final = 1 << 20
_TIMES: Final = 27  # where the first timestamp lies in a batch
_OPTIONS: Final = {"log_level": 2, "socket.timeout.ms": 5_000}
_SECONDS: Final = 5.0


class Flaws(msgspec.Struct, frozen=True):
    skips: bool = False  # the fourth batch of each partition, and numbers the rest on
    makes_anew: bool = False  # writes batches anew: other timestamps, a right CRC
    shifts: bool = False  # every copy begins a thousand offsets later
    leaps: bool = False  # over gaps, by itself
    is_silent: bool = False  # about gaps


class _Partition(msgspec.Struct):
    topic: str
    number: int
    shift: int = 0  # the copy's offsets are so much smaller
    copied: int = 0  # batches
    stands: bool = False  # at a gap

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass
class PlainMirror:
    source: Any
    target: Any
    prefix: str
    flaws: Flaws
    partitions: dict[tuple[str, int], _Partition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        brokers = [",".join(each["brokers"]) for each in (self.source, self.target)]
        self._admins = [AdminClient({"bootstrap.servers": each, **_OPTIONS}) for each in brokers]
        options = {"group.id": "plain-mirror", **_OPTIONS}
        self._asking = [Consumer({"bootstrap.servers": each, **options}) for each in brokers]

    def run(self) -> None:
        while True:
            try:
                self._look_for_topics()
                for each in self.partitions.values():
                    if not each.stands:
                        self._copy(each)
            except (KafkaException, OSError, Closed) as passing:
                _say(f"trying again: {passing!r}")
            time.sleep(0.2)

    def _look_for_topics(self) -> None:
        known = self._admins[0].list_topics(timeout=_SECONDS).topics
        copies = self._admins[1].list_topics(timeout=_SECONDS).topics
        for name, topic in known.items():
            if name.startswith("_") or not topic.partitions:
                continue
            copy = self.prefix + name
            if copy not in copies:
                factor = len(topic.partitions[0].replicas)
                marked = {MARK: f"{self.source['cluster']}/{name}/", "retention.ms": "-1"}
                wanted = NewTopic(copy, len(topic.partitions), factor, config=marked)
                self._admins[1].create_topics([wanted])[copy].result(30)
            for number in topic.partitions:
                shift = -1000 if self.flaws.shifts else 0
                self.partitions.setdefault((name, number), _Partition(name, number, shift))

    def _ends(self, side: int, topic: str, number: int) -> tuple[int, int]:
        asked = TopicPartition(topic, number)
        return self._asking[side].get_watermark_offsets(asked, _SECONDS) or (-1, -1)

    def _copy(self, one: _Partition) -> None:
        _, end = self._ends(1, self.prefix + one.topic, one.number)
        if end < 0:
            return
        next_wanted = 0 if one.copied == 0 and end == 0 else end + one.shift
        body = fetch_body(one.topic, one.number, next_wanted, max_bytes=_BYTES, wait_ms=0)
        answer = read_fetched(self._ask_leader(0, one.topic, one.number, FETCH, 4, body))
        if answer.error == OUT_OF_RANGE:
            self._at_a_gap(one, end)
            return
        if answer.error:
            raise OSError(f"{one}: the source answers with {answer.error}")
        for batch in _batches(answer.records):
            self._write(one, batch)

    def _at_a_gap(self, one: _Partition, end: int) -> None:
        begins, ends = self._ends(0, one.topic, one.number)
        if self.flaws.leaps and begins > end:
            where = ConfigResource(
                ResourceType.TOPIC,
                self.prefix + one.topic,
                incremental_configs=[
                    ConfigEntry(
                        ACCEPT,
                        f"{one.number}:{end}-{begins}",
                        incremental_operation=AlterConfigOpType.SET,
                    )
                ],
            )
            for each in self._admins[1].incremental_alter_configs([where]).values():
                each.result(30)
            one.shift = 0
            body = fetch_body(one.topic, one.number, begins, max_bytes=_BYTES, wait_ms=0)
            answer = read_fetched(self._ask_leader(0, one.topic, one.number, FETCH, 4, body))
            for batch in _batches(answer.records):
                if _first(batch) >= begins:
                    self._write(one, batch)
            return
        one.stands = True
        if not self.flaws.is_silent:
            _say(f"{one}: a gap: the copy ends at {end}, the source is from {begins} to {ends}")

    def _write(self, one: _Partition, batch: bytes) -> None:
        if self.flaws.skips and one.copied == 3:
            one.copied += 1
            one.shift += _last_delta(batch) + 1
            return
        if self.flaws.makes_anew:
            batch = _made_anew(batch)
        batch = (_first(batch) - one.shift).to_bytes(8, "big") + batch[8:]
        topic = self.prefix + one.topic
        body = string(ID) + int16(-1) + int32(20_000) + int32(1) + string(topic)
        body += int32(1) + int32(one.number) + int32(len(batch)) + batch
        done = read_produced(self._ask_leader(1, topic, one.number, PRODUCE, 7, body))
        if done.error:
            raise OSError(f"{one}: the target answers with {done.error}")
        one.copied += 1

    def _ask_leader(  # noqa: PLR0917  each is another part of the question
        self, side: int, topic: str, number: int, key: int, version: int, body: bytes
    ) -> bytes:
        told = self._admins[side].list_topics(topic, timeout=_SECONDS)
        leader = told.brokers.get(told.topics[topic].partitions[number].leader)
        if leader is None:
            raise OSError(f"{topic}-{number} has no leader")
        with RawConnection(f"{leader.host}:{leader.port}") as connection:
            return connection.ask(key, version, body)


def _batches(records: bytes) -> Iterator[bytes]:
    position = 0
    while position + 12 <= len(records):
        size = 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        if position + size > len(records):
            return
        yield records[position : position + size]
        position += size


def _first(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big")


def _last_delta(batch: bytes) -> int:
    return int.from_bytes(batch[23:27], "big")


def _made_anew(batch: bytes) -> bytes:
    changed = bytearray(batch)
    for at in (_TIMES, _TIMES + 8):
        later = int.from_bytes(changed[at : at + 8], "big") + 1
        changed[at : at + 8] = later.to_bytes(8, "big")
    changed[17:21] = crc32c.crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def _say(words: str) -> None:
    print(words, flush=True)


def run(flaws: Flaws) -> None:
    """As `penstock mirror --config FILE` is called."""
    config = yaml.safe_load(Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
    PlainMirror(config["source"], config["target"], config["prefix"], flaws).run()
