"""Profiles, their cases, and the scale of a run.

A case runs once per round on every broker and returns a sample: a number for each of its figures.
The cases of a profile share the brokers, which are started for the profile and then discarded.
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
    """The amounts that a run measures with, such as seconds, lines and rows."""

    seconds: float  # of a raw producer
    messages: int  # sent by kcat, and read by consumers
    slow_messages: int  # in batches of one
    replicated_messages: int  # to three brokers; a fifth in small batches
    latency_seconds: float
    warm_up_seconds: float  # before a latency run
    idle_connections: int
    members: int  # in groups of a hundred
    group_members: int  # of one group
    acls: int
    fetches: int  # of different topics, before they repeat
    partitions: int
    recovery_bytes: int
    missed_bytes: int  # by a stopped follower
    schemas: int
    versions: int  # of one subject
    lines: int  # of plain text in a backlog; a third in JSON
    files: int  # idle or growing slowly
    rows: int  # to load
    topics: int  # small ones, for one load
    hourly_topics: int  # loaded once an hour
    hourly_hours: int  # of them
    agents: int  # of the audited fleet
    agents_topics: int  # that the fleet writes to
    told_minutes: int  # of that fleet's entries in `_audit`
    kept_hours: int  # of that fleet in the database
    questions: int  # per page of the audit
    settling_seconds: float  # after the start of a whole pipeline
    idle_seconds: float  # of its measurement
    fleet_seconds: float  # of many agents' load
    ledger_seconds: float  # of load on a program that keeps a ledger
    ledger_interval: float  # between its entries
    warm_up: bool  # run a round before those that count

    def for_warming_up(self) -> "Scale":
        """Returns smaller amounts that still suffice for a virtual machine to compile its code."""
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
    hourly_topics=50,
    hourly_hours=720,
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
    hourly_topics=2,
    hourly_hours=30,
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
    """A started broker, registry, log shipper or loader."""

    @property
    def name(self) -> str: ...
    def last_words(self, lines: int) -> str: ...


ServerKind = Callable[[Path], AbstractContextManager[Server]]


class CaseContext(msgspec.Struct, frozen=True):
    """The environment of a case: a started server, the scale, and files that all cases share."""

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
    once: bool = False  # one round without warm-up, one broker at a time


class Results(msgspec.Struct, frozen=True):
    """The outcomes of a profile, by case and broker."""

    profile: Profile
    cases: tuple[Case, ...]
    brokers: tuple[str, ...]
    outcomes: Mapping[tuple[str, str], Outcome]
