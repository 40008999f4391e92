"""The status of a pipeline as values: what `penstock status` and the screen of `penstock up` show.

A program that does not answer leaves its part empty and a line in `problems`. -1 means unknown.
Times are milliseconds since 1970 UTC.

`Rates` computes the growth of topics from successive statuses. Pure: the time is that of a status.
"""

from collections import deque
from typing import Final

import msgspec

from audit.api.answers import AlteredTotal
from audit.reconciling.findings import CommandKind, Kinds

_OVER_MILLIS: Final = 5_000  # long enough for a steady rate, short enough to show a change
_MOST: Final = 2**63 - 1  # a server may answer any number


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one broker of the cluster."""

    id: int
    address: str
    controller: bool = False
    leads: int = -1  # partitions
    partitions: int = -1


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one topic, from the log files to the warehouse. Penstock's own topics are not
    listed."""

    topic: str
    partitions: int = -1
    stored: int = -1  # messages held by the brokers
    end: int = -1  # of all partitions together: grows with each message, for rates
    rate: float = -1.0  # messages a second, as the audit measured last
    landed: int = -1  # offsets that loaders have committed, all partitions together
    unread_bytes: int = -1  # of the local agent's files, not acknowledged yet
    state: str = ""  # the audit's verdict on the last day: complete, pending, unknown, missing …
    complete_until: int = -1  # every event before is accounted for
    waits: str = ""  # what it waits for, in words
    missing: int = 0
    excess: int = 0
    of_last_day: int = -1  # events that the audit has counted
    load_fails: bool = False  # loads of its table fail
    kinds: Kinds = ()  # open faults, by kind
    accepted: Kinds = ()  # faults of the last day that persons accepted, by kind
    dead: int = 0  # dead letters of the last day, of agents and loaders


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one agent, as reported by the audit or by the agent itself."""

    agent: str
    host: str
    state: str  # ok, behind, silent, never, retired; or the phase that it reports
    version: str = ""
    files: int = -1
    lag_bytes: int = -1
    heard: int = -1


class LoadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the last load, over all topics that it committed."""

    destination: str
    time: int
    topics: int
    rows: int
    lag: int = -1  # offsets that have not landed yet


class FailingLoadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a table whose loads fail."""

    topic: str  # empty: loads fail before they reach a table
    since: int  # start of the first failed load
    reason: str
    cure: str = ""
    destination: str = ""


class AlertStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a raised alert."""

    kind: str
    words: str
    raised: int
    command: str = ""
    command_kind: CommandKind | None = None


class PipelineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a whole pipeline."""

    now: int
    cluster: str = ""
    brokers: tuple[BrokerStatus, ...] = ()
    registry_subjects: int = -1
    topics: tuple[TopicStatus, ...] = ()
    agents: tuple[AgentStatus, ...] = ()
    expected_hosts: int = 0  # in the audit's inventory
    last_load: LoadStatus | None = None
    failing_loads: tuple[FailingLoadStatus, ...] = ()  # the longest failing first
    headline: str = ""  # what is wrong, in one sentence; empty while nothing is
    calm: str = ""  # the audit's headline while nothing is wrong
    mark: str = ""  # of that headline
    command: str = ""  # repairs it, or accepts it
    command_kind: CommandKind | None = None
    verdict: str = ""  # the worst state of all topics: complete, pending, unknown, missing …
    complete_until: int = -1  # of all topics
    verdict_as_of: int = -1  # time up to which the ledger has been read
    alerts: int = -1
    raised: tuple[AlertStatus, ...] = ()  # the newest, without those that the headline reports
    problems: tuple[str, ...] = ()  # silent servers and agents, data lost by brokers …
    releases: dict[str, tuple[str, ...]] = {}  # programs by the release that they run
    signatures: dict[str, dict[str, int]] = {}  # programs by kind: signed, unsigned, rejected
    altered: tuple[AlteredTotal, ...] = ()  # text of the last day that differs from the files


class Rates:
    """The rates of messages per second by topic, over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, dict[str, int]]] = deque()

    def add(self, status: PipelineStatus) -> None:
        """Adds a status. Adding the same status twice changes nothing."""
        if self._seen and status.now == self._seen[-1][0]:
            return
        if self._seen and status.now < self._seen[-1][0]:
            self._seen.clear()  # the clock was set back
        ends = {topic.topic: min(topic.end, _MOST) for topic in status.topics if topic.end >= 0}
        self._seen.append((status.now, ends))
        while len(self._seen) > 2 and self._seen[1][0] <= status.now - _OVER_MILLIS:
            self._seen.popleft()

    def of(self, topic: str) -> float:
        """Returns the rate of a topic; -1 if it is unknown because the topic was seen only once or
        was recreated."""
        history = [(now, ends[topic]) for now, ends in self._seen if topic in ends]
        if len(history) < 2 or history[-1][0] != self._seen[-1][0]:
            return -1.0
        (first_time, first_end), (now, last_end) = history[0], history[-1]
        return (last_end - first_end) * 1000 / (now - first_time) if last_end >= first_end else -1.0
