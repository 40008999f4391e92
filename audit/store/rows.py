"""What is kept of verdicts and alerts, and what lists of the store are made of. Values.

Times are milliseconds since 1970 UTC; -1 or an empty text where something is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from audit.picture import Interval, Tier, TopicKey

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Paged(Generic[Row]):
    """A page of a list, and how long the list is."""

    items: Sequence[Row]
    total: int


class JudgedHour(NamedTuple):
    """What was said of an hour of a topic, the last time. States are verdicts' words."""

    key: TopicKey
    hour: int
    state: str
    events: int = 0
    missing: int = 0
    excess: int = 0
    pending_windows: int = 0
    findings: int = 0  # that nobody has accepted
    waits: str = ""


class Alert(NamedTuple):
    """Raised once, resolved once. What it is about is its name."""

    kind: str
    cluster: str
    topic: str  # empty with silent
    host: str
    words: str
    raised: int
    resolved: int = -1
    told_raised: bool = False  # the webhook has it
    told_resolved: bool = False
    hour: int = -1  # of event time, with a fault


class TopicRow(NamedTuple):
    """A topic in the overview. `counts` and `states` are by hour from `from_hour` on; a state is
    empty where nothing was ever judged."""

    key: TopicKey
    state: str
    events: int
    missing: int
    excess: int
    pending_windows: int
    findings: int
    agents: int
    agents_behind: int
    last_event: int
    counts: Sequence[int]
    states: Sequence[str]
    waits: str
    deleted: bool = False


class HostRow(NamedTuple):
    """A host's part of a topic."""

    host: str
    agents: Sequence[str]
    files: int
    shipped: int
    landed: int  # at that destination which has least; -1 without any
    missing: int
    lost_bytes: int
    filtered: int
    dead: int
    last: int
    suspect: int  # files of which something is not as it should be
    pending: int = 0  # events beyond what has landed of their file, while loaders are behind


class SourceRow(NamedTuple):
    """One incarnation of a file. `missing` are seqs below what has landed that have not."""

    source: str
    path: str
    agent: str
    host: str
    shipped: Sequence[Interval]
    landed: Sequence[Interval]  # at that destination which has least
    missing: Sequence[Interval]
    missing_bytes: Sequence[Interval]
    position: int
    finished: bool
    lost_bytes: int
    filtered: int
    dead: int
    last: int
    suspect: bool


class AgentRow(NamedTuple):
    """`state` is ok, behind, silent, never, or retired."""

    agent: str
    host: str
    cluster: str
    version: str
    topics: Sequence[str]
    lag_bytes: int
    heard: int
    until: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Agents:
    """A page of the fleet, and how many there are of each state, whichever is asked for."""

    page: Paged[AgentRow]
    by_state: dict[str, int]


class LoadRow(NamedTuple):
    """What one run committed of one topic."""

    destination: str
    cluster: str
    topic: str
    run: int
    time: int
    rows: int
    bytes: int
    late: int
    duplicates: int
    dead: int
    partitions: int
    rebuilt: bool


class HourRow(NamedTuple):
    """An hour of a topic at one destination. `state` is the topic's, empty if it was not judged."""

    hour: int
    state: str
    events: int
    rows: int
    checked: int
    faults: int  # files that are not as they were committed
    words: str  # what it waits for


class FlowRow(NamedTuple):
    """Where lines went: read = shipped + filtered + dead + lost."""

    shipped: int = 0
    filtered: int = 0
    dead: int = 0
    lost: int = 0  # that are known
    lost_unknown: int = 0  # losses of nobody knows how many
    lost_bytes: int = 0
    events: int = 0


class ConsumerRow(NamedTuple):
    """How far a loader has read a topic."""

    cluster: str
    consumer: str
    topic: str
    partitions: int
    lag: int
    read: int
    upto: int  # offsets of all partitions together


class JournalRow(NamedTuple):
    """Somebody who writes entries."""

    cluster: str
    journal: str
    tier: str
    host: str
    entries: int
    last: int


Delays = dict[Tier, tuple[int, ...]]  # counts by doublings of a millisecond


class Touched(NamedTuple):
    """What has changed by a chunk, to be judged again."""

    hours: set[tuple[TopicKey, int]]
    entries: int = 0  # new ones
    repeated: int = 0
    left_out: int = 0  # of a later version, or without a name
