"""Decides whether all rows of an hour have been loaded, by the audit's answers or agents'
heartbeats. Pure.

With an audit, its answer counts: it knows the agents and brokers, and the load knows what it has
read. The audit is asked first (audit.py). What it calls complete was acknowledged by then, and lies
below the topics' ends, which are looked up afterwards; so an hour is complete once the load has
read up to these. Hours that were not asked about are left to the next load. Topics whose schema has
no header have no agents that an audit could know: their hours are closed by time.

Without one, watermarks decide, from agents' heartbeats in `_audit` (ledger_reading.py): an hour is
complete when all agents that ship to it are past it. All lines that an agent could read and that
are older than a heartbeat are acknowledged when the heartbeat is written. So they lie below the
topic's end when the heartbeat is read: `ends` are looked up afterwards, and an hour that all agents
are past is complete once the load has read up to them. (The highest offset that agents have named
proves nothing: statements may follow the heartbeat that covers them.)

Both happen before the load is planned.

If no agent can be behind, an hour is complete some time after its end, once the load has read up to
the log's end at that time. This holds if all agents of the topic are retired, or if its rows have
no header, since agents do not write such rows. If no agent is known to ship events to a topic,
`_audit` may belong to another cluster, and nothing is known of its hours: time closes them only if
`settle` is configured. Dead letters share the watermark of their topic.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from typing import Final, Protocol

import msgspec

from ledger.agents import Agents, Behind
from ledger.names import DEAD_SUFFIX
from loader.config import SETTLE_SECONDS
from loader.values.manifests import TopicState
from loader.values.tables import HOUR_MILLIS, Hour

MOST_NAMES: Final = 1_000  # in a marker
_FEW: Final = 3  # hosts that a message names


class Complete(msgspec.Struct, frozen=True):
    """The verdict that no more rows are expected."""

    by: str  # how that was decided, in words


class Waiting(msgspec.Struct, frozen=True):
    """The verdict that more rows may come."""

    missing: str  # in words, which stay equal while the cause does
    names: tuple[str, ...] = ()  # the first MOST_NAMES hosts


HourVerdict = Complete | Waiting


def combined(verdicts: Iterable[HourVerdict]) -> HourVerdict:
    """Combines the verdicts of all topics that feed a table into one."""
    waiting_verdicts, decided_by = [], []
    for verdict in verdicts:
        if isinstance(verdict, Waiting):
            waiting_verdicts.append(verdict)
        else:
            decided_by.append(verdict.by)
    if not waiting_verdicts:
        return Complete("; ".join(dict.fromkeys(decided_by)))
    reasons = "; ".join(dict.fromkeys(verdict.missing for verdict in waiting_verdicts))
    names = dict.fromkeys(name for verdict in waiting_verdicts for name in verdict.names)
    return Waiting(reasons, tuple(names)[:MOST_NAMES])


class Completeness(Protocol):
    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool, lack: str = ""
    ) -> HourVerdict | None:
        """The verdict on an hour of a table, whose topics were loaded up to these states. A state
        is None if the topic was never read. `events`: rows have Penstock's header, so agents write
        them. `lack`: what a rebuild did not restore, which only an audit that judges the files can
        decide about. None leaves the verdict to the next load."""


class TopicEnd(msgspec.Struct, frozen=True):
    """The ends of a topic's partitions, after the ledger was read."""

    topic_id: str
    offsets: Mapping[int, int]


class Watermarks(msgspec.Struct, frozen=True):
    """The progress of agents and topics at one time."""

    agents: Agents
    ends: Mapping[str, TopicEnd | None]  # None: the topic does not exist
    now: int  # milliseconds
    settle_millis: int | None  # None: not configured
    _waited_for: dict[frozenset[str], list[Behind]] = {}
    _expected: dict[str, Sequence[Behind]] = {}

    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool, lack: str = ""
    ) -> HourVerdict:
        """Judges an hour; see `Completeness`."""
        if lack:
            return Waiting(lack)
        return combined(self._judge(topic, state, hour, events) for topic, state in topics.items())

    def _judge(self, topic: str, state: TopicState | None, hour: Hour, events: bool) -> HourVerdict:
        end = self.ends[topic]
        if end is None:
            return Waiting(
                f"topic {topic}, which does not exist (remove it from the configuration if it is"
                " no longer needed)"
            )
        expected_agents = self.expected(topic)
        if not expected_agents and events and self.settle_millis is None:
            return Waiting(_no_agent(topic))
        verdict = self._of_agents(topic, expected_agents, hour + HOUR_MILLIS)
        if isinstance(verdict, Complete) and not _is_read(state, end):
            return Waiting(f"the load, which has not read {topic} to its end")
        return verdict

    def expected(self, topic: str) -> Sequence[Behind]:
        """The agents that ship to a topic, with their progress, the slowest first."""
        if topic not in self._expected:
            slowest_agents = self._shipping_to(topic)
            if not slowest_agents and topic.endswith(DEAD_SUFFIX):
                slowest_agents = self._shipping_to(topic.removesuffix(DEAD_SUFFIX))
            self._expected[topic] = slowest_agents
        return self._expected[topic]

    def _shipping_to(self, topic: str) -> Sequence[Behind]:
        if not self._waited_for:
            self._waited_for.update(self.agents.waited_for())
        slowest_by_topics = [
            agents for topics, agents in self._waited_for.items() if topic in topics
        ]
        return (
            slowest_by_topics[0] if len(slowest_by_topics) == 1 else list(merge(*slowest_by_topics))
        )

    def _of_agents(self, topic: str, expected: Sequence[Behind], until: int) -> HourVerdict:
        slowest_agents = []
        for agent in expected:
            if agent.until >= until:
                break
            if agent.until < self.agents.required(agent, until):
                slowest_agents.append(agent)
        if slowest_agents:
            return _waiting_for(slowest_agents)
        if expected and expected[-1].until >= until:
            return Complete("agents")
        settle_millis = SETTLE_SECONDS * 1000 if self.settle_millis is None else self.settle_millis
        if self.now < until + settle_millis:
            return Waiting(f"{topic}: settle time, since no agent writes to it")
        return Complete(f"settle time ({settle_millis / 1000:g} s)")


def _is_read(state: TopicState | None, end: TopicEnd) -> bool:
    """Whether the load has reached the log's end. The ends of partitions that brokers do not show
    are unknown."""
    next_offsets: dict[int, int] = {}
    if state is not None:
        if end.topic_id and state.topic_id and end.topic_id != state.topic_id:
            return False
        next_offsets = {
            partition.partition: partition.next_offset for partition in state.partitions
        }
    return next_offsets.keys() <= end.offsets.keys() and all(
        next_offsets.get(partition, 0) >= offset for partition, offset in end.offsets.items()
    )


def _no_agent(topic: str) -> str:
    return (
        f"agents: none is known to write to {topic} (load from the cluster that its agents write"
        " to, whose `_audit` names them; if there are none, set `completeness.settle` to the time"
        " after an hour's end when it is complete)"
    )


def _waiting_for(behind: Sequence[Behind]) -> Waiting:
    hosts = list(dict.fromkeys(sorted(agent.host for agent in behind)))
    host_list = ", ".join(hosts[:_FEW])
    if len(hosts) > _FEW:
        host_list += f" and {len(hosts) - _FEW} more"
    return Waiting(f"agents on {host_list}", tuple(hosts[:MOST_NAMES]))


class AuditGate(msgspec.Struct, frozen=True):
    """The audit's answers for one table, and the topics' ends afterwards."""

    answers: Mapping[tuple[str, Hour], HourVerdict]  # by topic and hour
    ends: Mapping[str, TopicEnd | None]
    now: int
    settle_millis: int | None
    with_files: frozenset[Hour] = frozenset()  # hours whose answers are also about their files

    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool, lack: str = ""
    ) -> HourVerdict | None:
        """Judges an hour; see `Completeness`."""
        if lack and not (events and hour in self.with_files):
            return Waiting(lack)
        if not events:
            return self._by_time(self.settle_millis).judge(topics, hour, events=False)
        topic_answers = [self.answers.get((topic, hour)) for topic in topics]
        answers = [answer for answer in topic_answers if answer is not None]
        if len(answers) < len(topic_answers):
            return None
        verdict = combined(answers)
        if isinstance(verdict, Waiting):
            return verdict
        settle_verdict = self._by_time(0).judge(topics, hour, events=False)
        return settle_verdict if isinstance(settle_verdict, Waiting) else verdict

    def _by_time(self, settle_millis: int | None) -> Watermarks:
        """Judges only by the topics' ends and time."""
        return Watermarks(Agents(), self.ends, self.now, settle_millis)
