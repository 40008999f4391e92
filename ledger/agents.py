"""Tracks, from agents' heartbeats in the ledger, the time up to which each topic is acknowledged.

Rule 1: the entry with the highest seq of a journal counts; a repeated entry changes nothing.
Rule 2: an entry that names topics names all that the agent ships to; one that names none means the
        same topics as before. A time of 0 means "unknown yet": the earlier time stays valid.
Rule 3: a topic that an agent no longer names still counts, up to its last time, until the agent has
        sent heartbeats for another `LEFT_MILLIS`: after a start it names topics one by one.
Rule 4: nothing later than the time of its retirement is expected of a retired host, until it sends
        an entry again.

One thread. Docs: docs/ledger-entries.md defines what entries mean.
"""

from typing import Final, NamedTuple

import msgspec

LEFT_MILLIS: Final = 24 * 3_600_000

_MOST_SETS: Final = 10_000


class Beat(NamedTuple):
    """A heartbeat: everything in these topics, or in all topics if none are given, is acknowledged
    up to `until`."""

    until: int
    topics: frozenset[str]


class AgentEntry(NamedTuple):
    """A ledger entry of an agent that contains heartbeats."""

    agent: str
    host: str
    seq: int
    time: int
    beats: tuple[Beat, ...]


class HostRetired(NamedTuple):
    """An operator's statement that retires one agent or, if it names no agent, all agents of the
    host."""

    host: str
    agent: str
    since: int
    time: int


Statement = AgentEntry | HostRetired


class LeftTopics(NamedTuple):
    """Topics that an agent used to ship to, but has stopped naming since `since`."""

    until: int
    topics: frozenset[str]
    since: int


class HeardAgent(msgspec.Struct):
    """The latest state of one agent. Times are in milliseconds."""

    host: str
    seq: int
    heard: int
    shipped: tuple[Beat, ...] = ()
    left: tuple[LeftTopics, ...] = ()


class Behind(NamedTuple):
    """The progress of one agent in a set of topics."""

    until: int
    host: str
    agent: str


class Agents(msgspec.Struct):
    """All agents and retired hosts with entries in the ledger."""

    by_id: dict[str, HeardAgent] = {}
    retired: dict[tuple[str, str], HostRetired] = {}
    _sets: dict[frozenset[str], frozenset[str]] = {}

    def take(self, statement: Statement) -> None:
        if isinstance(statement, HostRetired):
            earlier_retirement = self.retired.get((statement.host, statement.agent))
            if earlier_retirement is None or earlier_retirement.time <= statement.time:
                self.retired[statement.host, statement.agent] = statement
            return
        agent = self.by_id.get(statement.agent)
        if agent is None:
            agent = self.by_id[statement.agent] = HeardAgent(statement.host, -1, statement.time)
        if statement.seq > agent.seq:
            _follow(agent, statement._replace(beats=tuple(map(self._shared, statement.beats))))

    def copy(self) -> "Agents":
        """Returns the present state, which later statements do not change."""
        by_id = {name: msgspec.structs.replace(agent) for name, agent in self.by_id.items()}
        return Agents(by_id, dict(self.retired))

    def _shared(self, beat: Beat) -> Beat:
        """The same heartbeat, with one set object for all agents that ship to the same topics."""
        if not beat.topics:
            return beat
        if len(self._sets) >= _MOST_SETS:
            self._sets.clear()
        return Beat(beat.until, self._sets.setdefault(beat.topics, beat.topics))

    def forget(self, heard_before: int) -> None:
        """Drops the agents and retirements without an entry since `heard_before`."""
        self.by_id = {
            agent_id: agent for agent_id, agent in self.by_id.items() if agent.heard >= heard_before
        }
        self.retired = {
            key: retirement
            for key, retirement in self.retired.items()
            if retirement.time >= heard_before
        }

    def waited_for(self) -> dict[frozenset[str], list[Behind]]:
        """Returns, by set of topics, the progress of the agents that ship to them, the slowest
        agent first."""
        by_topics: dict[frozenset[str], list[Behind]] = {}
        for name, agent in self.by_id.items():
            for until, topics in agent.shipped:
                by_topics.setdefault(topics, []).append(Behind(until, agent.host, name))
            for until, topics, _ in agent.left:
                by_topics.setdefault(topics, []).append(Behind(until, agent.host, name))
        for agents in by_topics.values():
            agents.sort()
        return by_topics

    def required(self, behind: Behind, until: int) -> int:
        """Returns the time that the agent must reach for everything before `until` to be complete:
        `until`, or the time of the agent's retirement if that is earlier."""
        heard = self.by_id[behind.agent].heard
        for key in ((behind.host, ""), (behind.host, behind.agent)):
            retirement = self.retired.get(key)
            if retirement is not None and retirement.time >= heard:
                until = min(until, retirement.since)
        return until


def _follow(agent: HeardAgent, entry: AgentEntry) -> None:
    agent.host, agent.seq, agent.heard = entry.host, entry.seq, max(agent.heard, entry.time)
    topics_named = frozenset().union(*(topics for _, topics in entry.beats))
    if not topics_named:
        _follow_all(agent, entry)
        return
    shipped_before = agent.shipped
    shipped_beats = tuple(_known(beat, shipped_before) for beat in entry.beats if beat.topics)
    newly_left = [
        LeftTopics(until, topics - topics_named, entry.time) for until, topics in shipped_before
    ]
    left_topics = [
        *newly_left,
        *(topics._replace(topics=topics.topics - topics_named) for topics in agent.left),
    ]
    agent.left = tuple(
        topics for topics in left_topics if topics.topics and _is_recent(topics, entry.time)
    )
    agent.shipped = tuple(beat for beats in shipped_beats for beat in beats)


def _follow_all(agent: HeardAgent, entry: AgentEntry) -> None:
    until = min((beat.until for beat in entry.beats), default=0)
    if until > 0 and agent.shipped:
        topics = agent.shipped[0].topics
        if len(agent.shipped) > 1:
            topics = topics.union(*(beat.topics for beat in agent.shipped))
        agent.shipped = (Beat(until, topics),)
    if agent.left:
        agent.left = tuple(topics for topics in agent.left if _is_recent(topics, entry.time))


def _known(beat: Beat, before: tuple[Beat, ...]) -> list[Beat]:
    """The heartbeat itself; if it has no time, the earlier times of its topics."""
    if beat.until > 0:
        return [beat]
    earlier_beats = [Beat(until, topics & beat.topics) for until, topics in before]
    known_topics = frozenset().union(*(topics for _, topics in earlier_beats))
    return [part for part in (*earlier_beats, Beat(0, beat.topics - known_topics)) if part.topics]


def _is_recent(left: LeftTopics, now: int) -> bool:
    return now - left.since < LEFT_MILLIS
