"""A member that speaks to its coordinator by hand, and does not keep to the rules.

It joins, and leads if it is told so, and joins anew where it leads and the topic has grown; it
reads what it is given, and commits. But it also commits as who it was before: with generations that
are over, with ids that it had. And at times it is deaf: it hears of no rebalance, sends no
heartbeat, and goes on as if nothing had been. Whatever it commits are offsets that it has come to
itself, so that nothing is lost where a commit was rightly accepted.
"""

import contextlib
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from tests.campaigns.groups import requests
from tests.campaigns.groups.events import UNKNOWN, Committed, Committing, Fetched, Synced
from tests.campaigns.groups.member import (
    COMMIT_SECONDS,
    REFRESH_MS,
    SESSION_MS,
    Place,
    Records,
    arrived,
)
from tests.system.raw import Closed, RawConnection

REBALANCE_MS: Final = 8_000
_BEAT_SECONDS: Final = 0.5
_PAUSE: Final = 0.2
_COUNTED_WITHIN: Final = 1.0
_LIES: Final = 0.25  # of the commits are accompanied by one
_DEAF: Final = 0.02
_DEAF_SECONDS: Final = (2.0, 12.0)
_KEPT_OPEN: Final = 6  # connections that it has turned away from: what was sent there may come yet


@dataclass
class _Identity:
    """In one generation."""

    member_id: str
    generation: int
    positions: dict[int, int] = field(default_factory=dict)


class _Elsewhere(Exception):
    """Whoever was asked does not coordinate the group."""


class RawMember:
    def __init__(self, place: Place, leaving: threading.Event) -> None:
        self._place, self._leaving = place, leaving
        self._notebook = place.notebook()
        self._records = Records(place, self._notebook)
        self._chance = random.Random(f"{place.seed} {place.name}")
        self._liar = place.settings.get("honest") is None
        self._addresses = place.bootstrap.split(",")
        self._asked = self._chance.randrange(len(self._addresses))
        self._connection: RawConnection | None = None
        self._turned_from: list[RawConnection] = []
        self._member_id = ""
        self._now: _Identity | None = None
        self._before: list[_Identity] = []
        self._commits = 0
        self._committed: dict[int, int] = {}
        self._partitions = 0  # that are known
        self._given_out: int | None = None  # of them, if it leads
        self._count_at = self._beat_at = self._commit_at = self._deaf_until = 0.0
        self._reader = confluent_kafka.Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": f"reader-{place.name}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": REFRESH_MS,
                "log_level": 2,
            }
        )

    def live(self) -> None:
        try:
            while not self._leaving.is_set():
                try:
                    self._go_on()
                except (OSError, Closed, _Elsewhere):
                    self._turn_away()
                    self._leaving.wait(_PAUSE)
            self._leave()
        finally:
            self._turn_away()
            for each in self._turned_from:
                each.close()
            self._reader.close()
            self._notebook.close()

    def _go_on(self) -> None:
        connection = self._connection or self._find()
        if connection is None:
            self._leaving.wait(_PAUSE)
            return
        if self._now is None and not self._join(connection):
            self._leaving.wait(_PAUSE / 4)
            return
        self._read()
        now = time.monotonic()
        if now >= self._commit_at and self._now is not None:
            self._commit_at = now + self._chance.uniform(0.5, 1.5) * COMMIT_SECONDS
            self._commit(connection)
        if now >= self._count_at and self._now is not None and self._given_out is not None:
            self._count_at = now + REFRESH_MS / 1000
            self._count()
            if self._partitions > self._given_out:
                self._hear(requests.REBALANCING)
        if now >= self._beat_at and self._now is not None and not self._is_deaf:
            self._beat_at = now + _BEAT_SECONDS
            mine = self._now
            self._hear(
                requests.heartbeat(connection, self._place.group, mine.generation, mine.member_id)
            )

    @property
    def _is_deaf(self) -> bool:
        return time.monotonic() < self._deaf_until

    def _find(self) -> RawConnection | None:
        """Asks one broker after the other."""
        self._asked += 1
        address = self._addresses[self._asked % len(self._addresses)]
        with RawConnection(address) as asked:
            found = requests.find_coordinator(asked, self._place.group)
        self._connection = None if found is None else RawConnection(found)
        return self._connection

    def _turn_away(self) -> None:
        if self._connection is not None:
            self._turned_from.append(self._connection)
            self._connection = None
        while len(self._turned_from) > _KEPT_OPEN:
            self._turned_from.pop(0).close()

    def _hear(self, code: int) -> None:
        if code in requests.ELSEWHERE:
            raise _Elsewhere
        if self._is_deaf or not code:
            return
        if code == requests.UNKNOWN_MEMBER:
            self._member_id = ""
        self._records.note()
        if self._now is not None:
            self._before.append(self._now)
        self._now = None

    # In a group

    def _join(self, connection: RawConnection) -> bool:
        place = self._place
        joined = requests.join(
            connection,
            place.group,
            self._member_id,
            place.topic,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        if joined.code:
            if joined.code == requests.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
            else:
                self._hear(joined.code)
            return False
        self._member_id = joined.member_id
        shares = {}
        self._given_out = None
        if joined.leader == joined.member_id:
            self._count()
            self._given_out = self._partitions
            members = sorted(joined.members)
            shares = {
                each: range(at, self._partitions, len(members)) for at, each in enumerate(members)
            }
        asked = self._notebook.now()
        code, share = requests.sync(
            connection,
            place.group,
            joined.generation,
            joined.member_id,
            topic=place.topic,
            shares=shares,
            within=REBALANCE_MS / 1000 + requests.WITHIN,
        )
        if code:
            self._hear(code)
            return False
        self._notebook.note(
            Synced(place.group, place.name, joined.member_id, joined.generation, share, asked)
        )
        return self._begin(connection, joined.generation, share)

    def _count(self) -> None:
        """How many partitions there are, if anybody says so now: never fewer than before."""
        topic = self._place.topic
        with contextlib.suppress(KafkaException):
            known = self._reader.list_topics(topic, _COUNTED_WITHIN).topics[topic].partitions
            self._partitions = max(self._partitions, len(known))

    def _begin(self, connection: RawConnection, generation: int, share: tuple[int, ...]) -> bool:
        place, asked = self._place, self._notebook.now()
        positions: dict[int, int] = {}
        if share:
            code, found = requests.fetch(connection, place.group, place.topic, share)
            if code:
                self._hear(code)
                return False
            self._notebook.note(Fetched(place.group, place.name, found, asked))
            positions = {each: max(0, offset) for each, offset in found.items()}
        self._now = _Identity(self._member_id, generation, positions)
        # An identity is over for sure when there is a later one.
        self._before = [each for each in self._before if each.generation < generation][-5:]
        self._committed = dict(positions)
        for each in share:
            self._records.claim(each)
        self._reader.assign(
            [TopicPartition(place.topic, each, at) for each, at in positions.items()]
        )
        return True

    def _read(self) -> None:
        asked = self._notebook.now()
        messages = self._reader.consume(50, 0.05)
        had = self._notebook.now()
        positions = {} if self._now is None else self._now.positions
        for each in messages:
            partition, offset, value = each.partition(), each.offset(), each.value()
            if each.error() is not None or partition is None or offset is None:
                continue
            if positions.get(partition) == offset:
                self._records.took(partition, offset, value or b"", asked, had)
                positions[partition] = offset + 1

    def _commit(self, connection: RawConnection) -> None:
        mine = self._now
        assert mine is not None
        if self._liar and not self._is_deaf and self._chance.random() < _DEAF:
            self._deaf_until = time.monotonic() + self._chance.uniform(*_DEAF_SECONDS)
        if self._liar and self._before and self._chance.random() < _LIES:
            self._lie(connection, self._chance.choice(self._before), mine)
        due = {
            each: offset
            for each, offset in mine.positions.items()
            if self._committed.get(each) != offset
        }
        if due:
            self._records.note()
            code = self._send_commit(connection, mine.generation, mine.member_id, due)
            if not code:
                self._committed |= due
            self._hear(code)

    def _lie(self, connection: RawConnection, before: _Identity, mine: _Identity) -> None:
        """As who it was, or with half of that; whatever is answered."""
        if not before.positions:
            return
        generation, member_id = self._chance.choice(
            [
                (before.generation, before.member_id),
                (before.generation, mine.member_id),
                (before.generation, ""),
                *(
                    [(mine.generation, before.member_id)]
                    if before.member_id != mine.member_id
                    else []
                ),
            ]
        )
        self._send_commit(connection, generation, member_id, before.positions)

    def _send_commit(
        self, connection: RawConnection, generation: int, member_id: str, offsets: dict[int, int]
    ) -> int:
        place = self._place
        self._commits += 1
        number = self._commits
        self._notebook.note(
            Committing(place.group, place.name, number, member_id, generation, dict(offsets))
        )
        code = UNKNOWN
        try:
            code = requests.commit(
                connection, place.group, generation, member_id, topic=place.topic, offsets=offsets
            )
        finally:
            self._notebook.note(Committed(place.group, place.name, number, code))
        return code

    def _leave(self) -> None:
        self._records.note()
        connection = self._connection
        if connection is None or self._now is None:
            return
        with contextlib.suppress(OSError, Closed, _Elsewhere):
            self._deaf_until = 0.0
            self._commit(connection)
            requests.leave(connection, self._place.group, self._member_id)


if __name__ == "__main__":
    RawMember(*arrived()).live()
