"""What agents have said of themselves in the ledger, folded: up to when each topic is acknowledged.

Rule 1: the latest entry of a journal counts, by its seq; the same again changes nothing.
Rule 2: an entry that names topics names all that the agent ships to; one that names none means the
        same as before. Without a time yet, an agent says 0: what it said before still holds.
Rule 3: a topic that an agent has not named again is waited for up to where it was, but only for
        `LEFT_MILLIS` in which that agent was heard: after a start it names topics one by one.
Rule 4: a host that was retired is not expected to say anything of later times than that, until it
        is heard of again.

Pure but for itself: one thread. Docs: docs/events.md says what entries mean.
"""

from typing import Final, NamedTuple

import msgspec

LEFT_MILLIS: Final = 24 * 3_600_000

_MOST_SETS: Final = 10_000


class Beat(NamedTuple):
    """Up to then everything of these topics is acknowledged; of all of them, if none is named."""

    until: int
    topics: frozenset[str]


class AgentSaid(NamedTuple):
    """An agent's entry with heartbeats."""

    agent: str
    host: str
    seq: int
    time: int
    beats: tuple[Beat, ...]


class HostRetired(NamedTuple):
    """An operator's statement; no agent means all of that host."""

    host: str
    agent: str
    since: int
    time: int


Said = AgentSaid | HostRetired


class LeftTopics(NamedTuple):
    """Topics that an agent shipped to, and has not named since then."""

    until: int
    topics: frozenset[str]
    since: int


class HeardAgent(msgspec.Struct):
    """The latest of one agent. Times are in milliseconds."""

    host: str
    seq: int
    heard: int
    shipped: tuple[Beat, ...] = ()
    left: tuple[LeftTopics, ...] = ()


class Behind(NamedTuple):
    """Somebody who is waited for."""

    until: int
    host: str
    agent: str


class Agents(msgspec.Struct):
    """All that were heard."""

    by_id: dict[str, HeardAgent] = {}
    retired: dict[tuple[str, str], HostRetired] = {}
    _sets: dict[frozenset[str], frozenset[str]] = {}

    def take(self, said: Said) -> None:
        if isinstance(said, HostRetired):
            before = self.retired.get((said.host, said.agent))
            if before is None or before.time <= said.time:
                self.retired[said.host, said.agent] = said
            return
        agent = self.by_id.get(said.agent)
        if agent is None:
            agent = self.by_id[said.agent] = HeardAgent(said.host, -1, said.time)
        if said.seq > agent.seq:
            _follow(agent, said._replace(beats=tuple(map(self._shared, said.beats))))

    def _shared(self, beat: Beat) -> Beat:
        """With a set of topics that all agents share who ship to these."""
        if not beat.topics:
            return beat
        if len(self._sets) >= _MOST_SETS:
            self._sets.clear()
        return Beat(beat.until, self._sets.setdefault(beat.topics, beat.topics))

    def forget(self, heard_before: int) -> None:
        """Those who were not heard since."""
        self.by_id = {each: a for each, a in self.by_id.items() if a.heard >= heard_before}
        self.retired = {key: r for key, r in self.retired.items() if r.time >= heard_before}

    def waited_for(self) -> dict[frozenset[str], list[Behind]]:
        """How far all are, those behind first, by the topics that this is about."""
        found: dict[frozenset[str], list[Behind]] = {}
        for name, agent in self.by_id.items():
            for until, topics in agent.shipped:
                found.setdefault(topics, []).append(Behind(until, agent.host, name))
            for until, topics, _ in agent.left:
                found.setdefault(topics, []).append(Behind(until, agent.host, name))
        for all_ in found.values():
            all_.sort()
        return found

    def required(self, behind: Behind, until: int) -> int:
        """How far that agent must be, for everything before `until` to be there."""
        heard = self.by_id[behind.agent].heard
        for key in ((behind.host, ""), (behind.host, behind.agent)):
            retired = self.retired.get(key)
            if retired is not None and retired.time >= heard:
                until = min(until, retired.since)
        return until


def _follow(agent: HeardAgent, said: AgentSaid) -> None:
    agent.host, agent.seq, agent.heard = said.host, said.seq, max(agent.heard, said.time)
    named = frozenset().union(*(topics for _, topics in said.beats))
    if not named:
        _follow_all(agent, said)
        return
    before = agent.shipped
    shipped = tuple(_known(beat, before) for beat in said.beats if beat.topics)
    missing = [LeftTopics(until, topics - named, said.time) for until, topics in before]
    left = [*missing, *(each._replace(topics=each.topics - named) for each in agent.left)]
    agent.left = tuple(each for each in left if each.topics and _is_recent(each, said.time))
    agent.shipped = tuple(beat for each in shipped for beat in each)


def _follow_all(agent: HeardAgent, said: AgentSaid) -> None:
    until = min((beat.until for beat in said.beats), default=0)
    if until > 0 and agent.shipped:
        topics = agent.shipped[0].topics
        if len(agent.shipped) > 1:
            topics = topics.union(*(beat.topics for beat in agent.shipped))
        agent.shipped = (Beat(until, topics),)
    if agent.left:
        agent.left = tuple(each for each in agent.left if _is_recent(each, said.time))


def _known(beat: Beat, before: tuple[Beat, ...]) -> list[Beat]:
    """The beat itself; where it says no time, what was said before of its topics."""
    if beat.until > 0:
        return [beat]
    found = [Beat(until, topics & beat.topics) for until, topics in before]
    known = frozenset().union(*(topics for _, topics in found))
    return [each for each in (*found, Beat(0, beat.topics - known)) if each.topics]


def _is_recent(left: LeftTopics, now: int) -> bool:
    return now - left.since < LEFT_MILLIS
