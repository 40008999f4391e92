"""A member of librdkafka's, eager or cooperative, that commits what it has read.

librdkafka asks once where to begin in what it is given. If the group has just moved to another
broker, it is told so, and asks nobody else: it never begins to read
(https://github.com/confluentinc/librdkafka/issues/5586). So a member that has partitions and reads
nothing of one begins again as another one, as a program has to that uses it.
"""

import contextlib
import sys
import threading
import time
from math import inf
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from tests.campaigns.groups.events import UNKNOWN, Committed, Committing, Fetched
from tests.campaigns.groups.member import (
    COMMIT_SECONDS,
    REFRESH_MS,
    SESSION_MS,
    Place,
    Records,
    arrived,
)

_ASKS_FOR: Final = 3.0
_BEGINS: Final = 20.0  # within so long, if there is anything to read


class LibrdkafkaMember:
    def __init__(self, place: Place, leaving: threading.Event) -> None:
        self._place, self._leaving = place, leaving
        self._notebook = place.notebook()
        self._records = Records(place, self._notebook)
        self._due: dict[int, int] = {}
        self._commits = 0
        self._unread_since: dict[int, float] = {}
        self._consumer = self._begun()

    def _begun(self) -> confluent_kafka.Consumer:
        place = self._place
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": place.group,
                "client.id": place.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": REFRESH_MS,
                "log_level": 2,
                **place.settings,
            }
        )
        consumer.subscribe(
            [place.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._gone
        )
        return consumer

    def live(self) -> None:
        try:
            commit_at = 0.0
            while not self._leaving.is_set():
                asked = self._notebook.now()
                message = self._consumer.poll(0.1)
                if message is not None:
                    self._take(message, asked)
                if time.monotonic() >= commit_at:
                    self._commit()
                    commit_at = time.monotonic() + COMMIT_SECONDS
                if min(self._unread_since.values(), default=inf) < time.monotonic() - _BEGINS:
                    self._begin_again()
            self._commit()
        finally:
            self._records.note()
            self._consumer.close()
            self._notebook.close()

    def _begin_again(self) -> None:
        print(f"{self._notebook.now()} nothing of {self._unread_since}", file=sys.stderr)
        self._consumer.close()
        self._due.clear()
        self._unread_since.clear()
        self._consumer = self._begun()

    def _take(self, message: confluent_kafka.Message, asked: float) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            print(f"{self._notebook.now()} {error!r}", file=sys.stderr, flush=True)
        if error is not None or partition is None or offset is None:
            return
        value = message.value() or b""
        self._records.took(partition, offset, value, asked, self._notebook.now())
        self._due[partition] = offset + 1
        self._unread_since.pop(partition, None)

    def _assigned(
        self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        asked = self._notebook.now()
        for each in partitions:
            self._records.claim(each.partition)
            self._unread_since[each.partition] = time.monotonic()
        if not partitions:
            return
        with contextlib.suppress(KafkaException):
            found = consumer.committed(partitions, _ASKS_FOR)
            if all(each.error is None for each in found):
                offsets = {each.partition: max(-1, each.offset) for each in found}
                place = self._place
                self._notebook.note(Fetched(place.group, place.name, offsets, asked))

    def _revoked(
        self, _consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        self._commit()
        self._forget(partitions)

    def _gone(self, _consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self._records.note()
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._due.pop(each.partition, None)
            self._unread_since.pop(each.partition, None)

    def _commit(self) -> None:
        """Whatever is not well in the end, a first attempt may have been: nobody knows."""
        self._records.note()
        if not self._due:
            return
        due, self._due = self._due, {}
        place = self._place
        self._commits += 1
        number = self._commits
        offsets = [TopicPartition(place.topic, each, at) for each, at in due.items()]
        self._notebook.note(Committing(place.group, place.name, number, "", UNKNOWN, due))
        code = UNKNOWN
        with contextlib.suppress(KafkaException):
            answered = self._consumer.commit(offsets=offsets, asynchronous=False)
            if answered is not None and all(each.error is None for each in answered):
                code = 0
        self._notebook.note(Committed(place.group, place.name, number, code))
        if code:
            self._due = due | self._due


if __name__ == "__main__":
    LibrdkafkaMember(*arrived()).live()
