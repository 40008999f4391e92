"""A member of a group of the paper's kind: client/group, as a program uses it."""

import threading
import time
from collections.abc import Collection
from typing import Final

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.group.consumer import GroupConsumer, GroupRecord
from client.reading.offsets import Beginning
from cluster.errors import Fenced, Unavailable
from cluster.session.session import Session
from cluster.values import TopicPartition
from tests.campaigns.groups.events import UNKNOWN, Committed, Committing, Fetched
from tests.campaigns.groups.member import COMMIT_SECONDS, Place, Records, arrived
from tests.campaigns.groups.requests import UNKNOWN_MEMBER
from tests.campaigns.history import Trouble

_SESSION_SECONDS: Final = 6.0
_PATIENCE: Final = 120.0  # with brokers that are away


class _Told(GroupConsumer):
    """Notes since when a partition is its own."""

    def begin(self, member: "PaperMember") -> None:
        self._noting = member

    def gained(self, partitions: Collection[TopicPartition]) -> None:
        for each in partitions:
            self._noting.claimed(each.partition)
        super().gained(partitions)


class PaperMember:
    def __init__(self, place: Place, leaving: threading.Event) -> None:
        self._place, self._leaving = place, leaving
        self._notebook = place.notebook()
        self._records = Records(place, self._notebook)
        self._gained: dict[int, float] = {}
        self._done: dict[int, int] = {}
        self._last: GroupRecord | None = None
        self._commits = 0

    def live(self) -> None:
        place = self._place
        session = Session.connect(
            place.map_address,
            secret=None,
            timeout_s=_SESSION_SECONDS,
            connect_timeout_s=_PATIENCE,
            makes_map=False,
        )
        try:
            with self._brokers() as brokers:
                self._consumer = _Told(
                    brokers,
                    session,
                    place.group,
                    [place.topic],
                    start=Beginning(),
                    before_release=self._commit,
                    name=place.name,
                )
                self._consumer.begin(self)
                with self._consumer:
                    self._read()
        finally:
            self._records.note()
            session.close()
            self._notebook.close()

    def _brokers(self) -> Brokers:
        """Once one of them is there: it may begin when none is."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return Brokers(Bootstrap.of(self._place.bootstrap), patience_seconds=_PATIENCE)
            except ClientError as error:
                if not error.retriable or self._leaving.is_set() or time.monotonic() > until:
                    raise
                self._leaving.wait(0.2)

    def claimed(self, partition: int) -> None:
        self._records.note_one(partition)
        self._records.claim(partition)
        self._done.pop(partition, None)
        self._gained[partition] = self._notebook.now()

    def _read(self) -> None:
        commit_at = 0.0
        while not self._leaving.is_set():
            asked = self._notebook.now()
            try:
                for message in self._consumer.poll(0.3):
                    self._take(message, asked)
                    asked = self._notebook.now()
                    if self._leaving.is_set() or time.monotonic() >= commit_at:
                        break
            except ClientError as error:
                if not error.retriable:  # brokers that are away are no reason to end; this is one
                    name = self._place.name
                    self._notebook.note(Trouble(f"trouble: {name} was told: {error}"))
                self._leaving.wait(0.2)
            if time.monotonic() >= commit_at:
                self._commit()
                commit_at = time.monotonic() + COMMIT_SECONDS

    def _take(self, message: GroupRecord, asked: float) -> None:
        partition, offset = message.partition, message.record.offset
        had = self._notebook.now()
        gained = self._gained.pop(partition, None)
        if gained is not None:
            place = self._place
            self._notebook.note(Fetched(place.group, place.name, {partition: offset}, gained))
        value = bytes(message.record.value or b"")
        self._records.took(partition, offset, value, asked, had)
        self._done[partition] = offset + 1

    def _commit(self) -> None:
        """What is committed is what was handed out before the last one that was asked for: so of
        the partition of the last one it may be one less."""
        self._records.note()
        place = self._place
        due = {
            each.partition: position.offset
            for each, position in self._consumer._positions.items()
            if self._consumer._committed.get(each) != position.offset
        }
        if not due:
            return
        self._commits += 1
        number, who = self._commits, self._consumer.member.name
        self._notebook.note(Committing(place.group, place.name, number, who, UNKNOWN, due))
        code = UNKNOWN
        try:
            self._consumer.commit()
            code = 0
        except Fenced:
            code = UNKNOWN_MEMBER
        except Unavailable:
            pass
        finally:
            self._notebook.note(Committed(place.group, place.name, number, code))


if __name__ == "__main__":
    PaperMember(*arrived()).live()
