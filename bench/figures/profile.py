"""What a profile is made of, and how much of everything it takes.

A case is run once a round on every broker and gives a sample: one number for each of its figures.
All cases of a profile share the brokers, which are started for the profile and thrown away after.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from bench.figures.measurement import Goal, Outcome, Sample
from bench.servers.broker_clusters import Cluster
from bench.servers.brokers import Broker
from bench.servers.guarded_brokers import GuardedBroker
from bench.servers.locked_brokers import LockedBroker
from bench.servers.mirrors import MirroredClusters


class Scale(msgspec.Struct, frozen=True):
    """How much of everything a run takes."""

    seconds: float  # of raw producing
    messages: int  # through kcat, and in the log that consumers read
    slow_messages: int  # the same, in batches of one
    replicated_messages: int  # to three brokers; where batches are small, a fifth of it
    latency_seconds: float
    warm_up_seconds: float  # of a latency run, not counted
    idle_connections: int
    members: int  # of groups, a hundred each
    group_members: int  # of one group
    acls: int
    fetches: int  # of topics, each of another one, before they are asked for again
    partitions: int
    recovery_bytes: int
    missed_bytes: int  # by a follower that is away
    schemas: int
    versions: int  # of one subject
    lines: int  # of plain text in the files of a backlog; of JSON, a third
    files: int  # that are idle, or grow slowly
    rows: int  # that are loaded
    topics: int  # with little in each, that are loaded at once
    agents: int  # of the fleet whose ledger is audited
    agents_topics: int  # that they write to, in all
    told_minutes: int  # of that fleet, as entries in `_audit`
    kept_hours: int  # of that fleet, in the database whose pages are asked for
    questions: int  # to each of these pages
    settling_seconds: float  # of a whole pipeline that has just come up
    idle_seconds: float  # for which it is watched
    fleet_seconds: float  # for which many agents write
    ledger_seconds: float  # of a load on whoever keeps a ledger
    ledger_interval: float  # between his entries
    warm_up: bool  # a round that is not counted

    def for_warming_up(self) -> "Scale":
        """Enough for a virtual machine to compile its code."""
        return replace(
            self,
            seconds=min(self.seconds, 3.0),
            latency_seconds=min(self.latency_seconds, 3.0),
            settling_seconds=60.0,
            idle_seconds=1.0,
            lines=self.lines // 10,
            rows=self.rows // 10,
            topics=max(10, self.topics // 100),
            told_minutes=max(1, self.told_minutes // 60),
            ledger_seconds=min(self.ledger_seconds, 3.0),
            replicated_messages=self.replicated_messages // 10,
            partitions=max(10, self.partitions // 10),
            missed_bytes=self.missed_bytes // 10,
        )


FULL = Scale(
    seconds=5.0,
    messages=5_000_000,
    slow_messages=200_000,
    replicated_messages=3_000_000,
    latency_seconds=10.0,
    warm_up_seconds=2.0,
    idle_connections=10_000,
    members=5_000,
    group_members=200,
    acls=10_000,
    fetches=200_000,
    partitions=1_000,
    recovery_bytes=10_000_000_000,
    missed_bytes=1_000_000_000,
    schemas=10_000,
    versions=500,
    lines=3_000_000,
    files=1_000,
    rows=10_000_000,
    topics=1_000,
    agents=10_000,
    agents_topics=100,
    told_minutes=180,
    kept_hours=24,
    questions=50,
    settling_seconds=5.0,
    idle_seconds=120.0,
    fleet_seconds=60.0,
    ledger_seconds=40.0,
    ledger_interval=10.0,
    warm_up=True,
)
QUICK = Scale(
    seconds=0.3,
    messages=50_000,
    slow_messages=2_000,
    replicated_messages=30_000,
    latency_seconds=0.5,
    warm_up_seconds=0.2,
    idle_connections=100,
    members=100,
    group_members=10,
    acls=200,
    fetches=2_000,
    partitions=20,
    recovery_bytes=20_000_000,
    missed_bytes=20_000_000,
    schemas=200,
    versions=50,
    lines=30_000,
    files=50,
    rows=100_000,
    topics=20,
    agents=100,
    agents_topics=10,
    told_minutes=60,
    kept_hours=2,
    questions=3,
    settling_seconds=1.0,
    idle_seconds=1.0,
    fleet_seconds=2.0,
    ledger_seconds=2.0,
    ledger_interval=0.5,
    warm_up=False,
)


class Server(Protocol):
    """What is measured: a started broker, a registry, what ships log lines, what loads events."""

    @property
    def name(self) -> str: ...
    def last_words(self, lines: int) -> str: ...


ServerKind = Callable[[Path], AbstractContextManager[Server]]


class CaseContext(msgspec.Struct, frozen=True):
    """Where a case runs: a started server, how much, and files that all cases share."""

    server: Server
    scale: Scale
    files: Path

    @property
    def broker(self) -> Broker:
        assert isinstance(self.server, Broker)
        return self.server

    @property
    def cluster(self) -> Cluster:
        assert isinstance(self.server, Cluster)
        return self.server

    @property
    def locked(self) -> LockedBroker:
        assert isinstance(self.server, LockedBroker)
        return self.server

    @property
    def mirrored(self) -> MirroredClusters:
        assert isinstance(self.server, MirroredClusters)
        return self.server

    @property
    def guarded(self) -> GuardedBroker:
        assert isinstance(self.server, GuardedBroker)
        return self.server


class Case(msgspec.Struct, frozen=True):
    name: str
    run: Callable[[CaseContext], Sample]
    goals: tuple[Goal, ...] = ()


class Profile(msgspec.Struct, frozen=True):
    """Cases that run on the same started brokers."""

    name: str
    about: str
    cases: tuple[Case, ...]
    prepare: Callable[[CaseContext], None] | None = None
    once: bool = False  # a single round, without warm-up, one broker at a time


class Results(msgspec.Struct, frozen=True):
    """All outcomes of a profile's cases, by case and broker."""

    profile: Profile
    cases: tuple[Case, ...]
    brokers: tuple[str, ...]
    outcomes: Mapping[tuple[str, str], Outcome]
