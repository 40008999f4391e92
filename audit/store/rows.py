"""Rows of the database as values: judged hours, alerts, journals, and the hours that a chunk
touched.

Times are milliseconds since 1970 UTC; -1 or an empty text means unknown.
"""

from typing import NamedTuple

from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import Kinds
from audit.reconciling.picture import TopicKey


class JudgedHour(NamedTuple):
    """The latest verdict about an hour of a topic."""

    key: TopicKey
    hour: int
    state: str
    events: int = 0
    missing: int = 0
    excess: int = 0
    pending_windows: int = 0
    findings: int = 0  # open ones
    waits: str = ""
    # Faults that a person accepted, and open ones, by kind. Events and findings count in the hour
    # where they begin.
    accepted: Kinds = ()
    kinds: Kinds = ()
    dead: DeadLetters = DeadLetters()


class Alert(NamedTuple):
    """An alert, raised once and resolved once, identified by its subject."""

    kind: str
    cluster: str
    topic: str  # empty with silent
    host: str
    words: str
    raised: int
    resolved: int = -1
    hour: int = -1  # of event time, with a fault
    finding: str = ""  # with a fault, the id of the first finding when it was raised
    since: int = -1  # when it began, as far as known


class TopicShare(NamedTuple):
    """The number of lines that agents read from a topic's files in a period, and how many of them
    became dead letters or were altered. Events that loaders could not decode are counted only in
    the root that has the most of them."""

    cluster: str
    topic: str
    lines: int
    rejected: int  # by agents
    altered: int
    undecoded: int = 0
    root: str = ""  # where these are

    @property
    def dead(self) -> int:
        return self.rejected + self.undecoded


class LoadEnd(NamedTuple):
    """The result of the last load of a table."""

    cluster: str
    topic: str
    destination: str
    failed: bool
    since: int  # when the first of the failed loads began
    time: int  # of the loader's report


class JournalRow(NamedTuple):
    """A journal, and the program that writes it."""

    cluster: str
    journal: str
    tier: str
    host: str
    entries: int
    last: int


class Touched(NamedTuple):
    """The hours that a chunk changed and that must be judged again, and the number of its
    entries."""

    hours: set[tuple[TopicKey, int]]
    entries: int = 0  # new ones
    repeated: int = 0
    left_out: int = 0  # of a later version, without a name, or not believed
