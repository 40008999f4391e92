"""Whether an audit finds anything that it did not find before.

It is believed only once it has read the ledgers up to a moment after the gate began, by its own
clock: what an audit says that has stopped reading is what was true then.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from audit.api.answers import AgentRow, AgentsAnswer, Findings, TopicsAnswer
from audit.api.queries import MOST_ITEMS
from ground.http.client import HttpUrl
from penstock.cli.failures import Failed
from penstock.gate.baseline import AuditBefore, KnownFinding
from penstock.gate.reasons import Reason, Trouble, some
from penstock.report.asking import ask

ABOUT: Final = "audit"
SECONDS: Final = 10.0
_MOST_PAGES: Final = 40
_SAID: Final = 300  # characters of a finding

T = TypeVar("T")


class AskedAudit:
    """Every question of it raises Failed, with why."""

    def __init__(self, at: HttpUrl, cluster: str = "") -> None:
        self.at = at
        self._cluster = cluster

    def get(self, path: str, kind: type[T], **parameters: Any) -> T:
        asked = {name.rstrip("_"): value for name, value in parameters.items()}
        return ask(self.at, path, {"cluster": self._cluster, **asked}, kind, seconds=SECONDS)

    def topics(self) -> TopicsAnswer:
        return self.get("topics", TopicsAnswer, size=1)

    def findings(self) -> list[tuple[KnownFinding, str]]:
        """All that nobody has accepted, with their words."""
        found: list[tuple[KnownFinding, str]] = []
        for page in range(1, _MOST_PAGES + 1):
            answer = self.get("findings", Findings, accepted="false", page=page, size=MOST_ITEMS)
            found += [
                (KnownFinding.of(topic, each), each.words)
                for topic, each in zip(answer.topics, answer.items, strict=True)
            ]
            if page * MOST_ITEMS >= answer.page.total:
                return found
        raise Failed(f"the audit at {self.at} has {answer.page.total:,} findings: too many to tell")

    def silent(self) -> list[AgentRow]:
        """Agents that are not heard, and hosts that never were."""
        found: list[AgentRow] = []
        for state in ("silent", "never"):
            for page in range(1, _MOST_PAGES + 1):
                answer = self.get("agents", AgentsAnswer, state=state, page=page, size=MOST_ITEMS)
                found += answer.items
                if page * MOST_ITEMS >= answer.page.total:
                    break
            else:
                raise Failed(f"the audit at {self.at} has too many silent agents to tell")
        return found

    def before(self) -> AuditBefore:
        topics = self.topics()
        return AuditBefore(
            findings=[each for each, _ in self.findings()],
            failing_loads=[(e.cluster, e.topic, e.destination) for e in topics.failing_loads],
            silent=[_agent(each) for each in self.silent()],
        )


class AuditCheck:
    about = ABOUT

    def __init__(self, audit: AskedAudit, before: AuditBefore) -> None:
        self._audit = audit
        self._before = before
        self._known = {each.subject: list[KnownFinding]() for each in before.findings}
        for each in before.findings:
            self._known[each.subject].append(each)
        self._since = -1  # by the audit's clock

    def close(self) -> None:
        """Nothing is kept open."""

    def look(self) -> Sequence[Reason]:
        try:
            topics = self._audit.topics()
            if self._since < 0:
                self._since = topics.now
            if topics.as_of <= self._since:
                behind = max(0, topics.now - topics.as_of) // 1000
                said = "; ".join([f"the ledgers were read up to {behind:,} s ago", *topics.notices])
                return [Reason(ABOUT, Trouble.SILENCE, f"it does not keep up: {said}")]
            return list(self._new(topics))
        except Failed as error:
            return [Reason(ABOUT, Trouble.SILENCE, error.message)]

    def _new(self, topics: TopicsAnswer) -> Iterator[Reason]:
        found = [words[:_SAID] for each, words in self._audit.findings() if not self._knew(each)]
        if found:
            count = "a new finding" if len(found) == 1 else f"{len(found):,} new findings"
            yield Reason(ABOUT, Trouble.NEW, f"{count}: {some(found)}")
        for load in topics.failing_loads:
            if (load.cluster, load.topic, load.destination) not in self._before.failing_loads:
                words = f"{load.topic or 'every table'} is not loaded: {load.reason}"
                yield Reason(ABOUT, Trouble.NEW, words[:_SAID])
        silent = [each for each in self._audit.silent() if _agent(each) not in self._before.silent]
        if silent:
            hosts = some(sorted({each.host for each in silent}))
            yield Reason(ABOUT, Trouble.NEW, f"agents are silent that were not: {hosts}")

    def _knew(self, finding: KnownFinding) -> bool:
        return any(each.covers(finding) for each in self._known.get(finding.subject, ()))


def _agent(row: AgentRow) -> tuple[str, str, str]:
    return row.cluster, row.host, row.agent
