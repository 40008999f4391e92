"""Completeness by the audit: it knows of agents and brokers, and the load of what it has read.

The audit is asked first. What it calls complete has been acknowledged by then, and lies below where
the topics end when that is looked up afterwards; so an hour is complete once the load has read to
there. All of this comes before the load is planned, as with watermarks. Hours that nobody had
thought of by then are left as they are, and the next load asks about them.

Topics whose schema has no header are nothing that an audit knows agents of: as elsewhere, it is
time that closes their hours. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.agents import Agents
from loader.hours.audit import Asked
from loader.hours.completeness import Verdict, Waiting, together
from loader.hours.watermarks import TopicEnd, Watermarks
from loader.manifests import TopicState
from loader.tables import Hour


@dataclass(frozen=True, slots=True)
class AuditGate:
    """What was known at one time, of one table."""

    answers: Mapping[Asked, Verdict]
    ends: Mapping[str, TopicEnd | None]
    now: int
    settle_millis: int | None

    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool
    ) -> Verdict | None:
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
