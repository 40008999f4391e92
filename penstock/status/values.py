"""How a pipeline stands, as values: what `penstock status` and the screen of `penstock up` show.

Each part is asked on its own: one that does not answer leaves its part empty, and says why in
`problems`. -1 is what is not known. Times are milliseconds since 1970 UTC.

How fast topics grow is told from one `PipelineStatus` after another. Pure: time is theirs.
"""

from collections import deque
from typing import Final

import msgspec

from audit.api.answers import AlteredTotal
from audit.reconciling.findings import CommandKind, Kinds

_OVER_MILLIS: Final = 5_000  # long enough to be calm, short enough to see a change
_MOST: Final = 2**63 - 1  # whoever answers may say any number


class BrokerStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of the cluster."""

    id: int
    address: str
    controller: bool = False
    leads: int = -1  # partitions
    partitions: int = -1


class TopicStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, from the log files to the warehouse. Penstock's own topics are not listed."""

    topic: str
    partitions: int = -1
    stored: int = -1  # messages that the brokers hold now
    end: int = -1  # of all partitions together: grows with each message, for rates
    rate: float = -1.0  # messages a second, as the audit measured last
    landed: int = -1  # offsets that loaders have committed, all partitions together
    unread_bytes: int = -1  # of followed files, not acknowledged yet; of the agent that was asked
    state: str = ""  # the audit's word for the last day: complete, pending, unknown, missing …
    complete_until: int = -1  # every event before is accounted for
    waits: str = ""  # for what, in words
    missing: int = 0
    excess: int = 0
    of_last_day: int = -1  # events, as the audit counts them
    load_fails: bool = False  # no load commits anything of it
    kinds: Kinds = ()  # what is wrong and nobody has accepted, each kind by itself
    partly_unseen: bool = False  # nobody watched for a time of the last day, and that is accepted


class AgentStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One agent, as the audit heard it, or as it says itself."""

    agent: str
    host: str
    state: str  # ok, behind, silent, never, retired; or the phase that it names itself
    version: str = ""
    files: int = -1
    lag_bytes: int = -1
    heard: int = -1


class LoadStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The last load, over all topics that it committed."""

    destination: str
    time: int
    topics: int
    rows: int
    lag: int = -1  # offsets that are not landed yet


class FailingLoadStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A table that no load commits anything of."""

    topic: str  # empty: no table at all
    since: int  # when the first of the loads was tried that failed
    reason: str
    cure: str = ""
    destination: str = ""


class AlertStanding(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that is raised."""

    kind: str
    words: str
    raised: int
    command: str = ""
    command_kind: CommandKind | None = None


class PipelineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    now: int
    cluster: str = ""
    brokers: tuple[BrokerStanding, ...] = ()
    registry_subjects: int = -1
    topics: tuple[TopicStanding, ...] = ()
    agents: tuple[AgentStanding, ...] = ()
    expected_hosts: int = 0  # that the audit's inventory names
    last_load: LoadStanding | None = None
    failing_loads: tuple[FailingLoadStanding, ...] = ()  # what fails longest first
    headline: str = ""  # what is wrong, in one sentence; empty while nothing is
    calm: str = ""  # the audit's sentence while nothing is wrong
    mark: str = ""  # of that sentence
    command: str = ""  # that mends it, or accepts it
    command_kind: CommandKind | None = None
    verdict: str = ""  # the worst word of all topics: complete, pending, unknown, missing …
    complete_until: int = -1  # of all topics
    verdict_as_of: int = -1  # up to when the ledger has been read
    alerts: int = -1
    raised: tuple[AlertStanding, ...] = ()  # the newest, but for those that the headline is about
    problems: tuple[str, ...] = ()  # who does not answer or is silent, and what brokers have lost
    altered: tuple[AlteredTotal, ...] = ()  # text of the last day that is not what the files have


class Rates:
    """Messages a second by topic, over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, dict[str, int]]] = deque()

    def add(self, standing: PipelineStatus) -> None:
        """The same one again changes nothing."""
        if self._seen and standing.now == self._seen[-1][0]:
            return
        if self._seen and standing.now < self._seen[-1][0]:
            self._seen.clear()  # the clock was set back: what was seen is of no use
        ends = {each.topic: min(each.end, _MOST) for each in standing.topics if each.end >= 0}
        self._seen.append((standing.now, ends))
        while len(self._seen) > 2 and self._seen[1][0] <= standing.now - _OVER_MILLIS:
            self._seen.popleft()

    def of(self, topic: str) -> float:
        """-1 while it is not known: it was not seen twice, or was made anew."""
        ends = [(now, seen[topic]) for now, seen in self._seen if topic in seen]
        if len(ends) < 2 or ends[-1][0] != self._seen[-1][0]:
            return -1.0
        (since, first), (now, last) = ends[0], ends[-1]
        return (last - first) * 1000 / (now - since) if last >= first else -1.0
