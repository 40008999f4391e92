"""Whether all rows of an hour have been loaded: the one question, and who answers it. Pure.

The audit answers, where there is one: it knows of agents and brokers, and the load of what it has
read. It is asked first (audit.py). What it calls complete has been acknowledged by then, and lies
below where the topics end when that is looked up afterwards; so an hour is complete once the load
has read to there. Hours that nobody had thought of by then are left as they are, and the next load
asks about them. Topics whose schema has no header are nothing that an audit knows agents of: as
elsewhere, it is time that closes their hours.

Elsewhere watermarks do, from what agents say in `_audit` (ledger_reading.py): an hour is complete
when all who ship to it are past it. What was there to be read and happened before a heartbeat's
time is acknowledged when the heartbeat is written. So it lies below where the topic's log ends when
the heartbeat is read: `ends` are looked up afterwards, and an hour whose agents are all past it is
complete once the load has read to there. (Statements about what passed may come after the heartbeat
that covers it: the highest offset that agents have named so far proves nothing.)

Either is asked before the load is planned.

Where nobody can be behind, an hour is complete some time after its end, once the load has read to
where the log ended at that time: all who shipped to the topic are retired, or its rows have no
header, so that no agent writes them. Events come from somewhere: where no agent is known to ship
them, `_audit` may be another cluster's, and nothing is known of any hour. Then it is only time that
closes hours if it is said how long. Dead letters are on their topic's watermark.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from typing import Final, Protocol

import msgspec

from ledger.agents import Agents, Behind
from ledger.names import DEAD_SUFFIX
from loader.config import SETTLE_SECONDS
from loader.manifests import TopicState
from loader.tables import HOUR_MILLIS, Hour

MOST_NAMES: Final = 1_000  # that a marker has
_FEW: Final = 3  # that are named in words


class Complete(msgspec.Struct, frozen=True):
    """Nothing more will come that anybody knows of."""

    by: str  # how that was decided, in words


class Waiting(msgspec.Struct, frozen=True):
    """Something may still come."""

    missing: str  # in words; the same as long as the same is waited for
    names: tuple[str, ...] = ()  # the hosts, as many as are worth naming


HourVerdict = Complete | Waiting


def together(verdicts: Iterable[HourVerdict]) -> HourVerdict:
    """Of all that feed a table."""
    waiting, by = [], []
    for each in verdicts:
        if isinstance(each, Waiting):
            waiting.append(each)
        else:
            by.append(each.by)
    if not waiting:
        return Complete("; ".join(dict.fromkeys(by)))
    missing = "; ".join(dict.fromkeys(each.missing for each in waiting))
    names = dict.fromkeys(name for each in waiting for name in each.names)
    return Waiting(missing, tuple(names)[:MOST_NAMES])


class Completeness(Protocol):
    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool
    ) -> HourVerdict | None:
        """The hour of a table that these topics feed, all of them, loaded up to where their states
        say; None: nothing of it was ever read. Rows with Penstock's header are events: agents write
        them. No verdict: the hour is left as it is, for the next load."""


class TopicEnd(msgspec.Struct, frozen=True):
    """Where a topic's partitions ended, after the ledger had been read."""

    topic_id: str
    offsets: Mapping[int, int]


class Watermarks(msgspec.Struct, frozen=True):
    """What was known at one time."""

    agents: Agents
    ends: Mapping[str, TopicEnd | None]  # None: there is no such topic
    now: int  # milliseconds
    settle_millis: int | None  # None: not said
    _waited_for: dict[frozenset[str], list[Behind]] = {}
    _expected: dict[str, Sequence[Behind]] = {}

    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool
    ) -> HourVerdict:
        """Of one table; see `Completeness`."""
        return together(self._judge(topic, state, hour, events) for topic, state in topics.items())

    def _judge(self, topic: str, state: TopicState | None, hour: Hour, events: bool) -> HourVerdict:
        end = self.ends[topic]
        if end is None:
            return Waiting(
                f"topic {topic}, which is not there (if it never will be, take it out of the"
                " configuration)"
            )
        expected = self.expected(topic)
        if not expected and events and self.settle_millis is None:
            return Waiting(_no_agent(topic))
        verdict = self._of_agents(topic, expected, hour + HOUR_MILLIS)
        if isinstance(verdict, Complete) and not _is_read(state, end):
            return Waiting(f"the load, which has not read {topic} to its end")
        return verdict

    def expected(self, topic: str) -> Sequence[Behind]:
        """Those who ship to a topic, and how far they are; those behind first."""
        if topic not in self._expected:
            found = self._shipping_to(topic)
            if not found and topic.endswith(DEAD_SUFFIX):
                found = self._shipping_to(topic.removesuffix(DEAD_SUFFIX))
            self._expected[topic] = found
        return self._expected[topic]

    def _shipping_to(self, topic: str) -> Sequence[Behind]:
        if not self._waited_for:
            self._waited_for.update(self.agents.waited_for())
        found = [each for topics, each in self._waited_for.items() if topic in topics]
        return found[0] if len(found) == 1 else list(merge(*found))

    def _of_agents(self, topic: str, expected: Sequence[Behind], until: int) -> HourVerdict:
        behind = []
        for each in expected:
            if each.until >= until:
                break
            if each.until < self.agents.required(each, until):
                behind.append(each)
        if behind:
            return _waiting_for(behind)
        if expected and expected[-1].until >= until:
            return Complete("agents")
        settle = SETTLE_SECONDS * 1000 if self.settle_millis is None else self.settle_millis
        if self.now < until + settle:
            return Waiting(f"{topic}: time to settle, as no agent writes to it")
        return Complete(f"time to settle ({settle / 1000:g} s)")


def _is_read(state: TopicState | None, end: TopicEnd) -> bool:
    """Whether the load has come to where the log ended. Of partitions that brokers do not show
    nobody knows where they end."""
    read: dict[int, int] = {}
    if state is not None:
        if end.topic_id and state.topic_id and end.topic_id != state.topic_id:
            return False
        read = {each.partition: each.next_offset for each in state.partitions}
    return read.keys() <= end.offsets.keys() and all(
        read.get(partition, 0) >= offset for partition, offset in end.offsets.items()
    )


def _no_agent(topic: str) -> str:
    return (
        f"agents: none is known to write to {topic} (load from the cluster that its agents write"
        " to, whose `_audit` names them; or, if none does, say with `completeness.settle` how long"
        " after its end an hour is complete)"
    )


def _waiting_for(behind: Sequence[Behind]) -> Waiting:
    hosts = list(dict.fromkeys(sorted(each.host for each in behind)))
    words = ", ".join(hosts[:_FEW])
    if len(hosts) > _FEW:
        words += f" and {len(hosts) - _FEW} more"
    return Waiting(f"agents on {words}", tuple(hosts[:MOST_NAMES]))


class AuditGate(msgspec.Struct, frozen=True):
    """What was known at one time, of one table."""

    answers: Mapping[tuple[str, Hour], HourVerdict]  # by topic and hour
    ends: Mapping[str, TopicEnd | None]
    now: int
    settle_millis: int | None

    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool
    ) -> HourVerdict | None:
        """See `Completeness`."""
        if not events:
            return self._by_time(self.settle_millis).judge(topics, hour, events=False)
        found = [self.answers.get((topic, hour)) for topic in topics]
        answers = [each for each in found if each is not None]
        if len(answers) < len(found):
            return None
        verdict = together(answers)
        if isinstance(verdict, Waiting):
            return verdict
        read = self._by_time(0).judge(topics, hour, events=False)
        return read if isinstance(read, Waiting) else verdict

    def _by_time(self, settle_millis: int | None) -> Watermarks:
        """With no agents, only the topics' ends and time count."""
        return Watermarks(Agents(), self.ends, self.now, settle_millis)
