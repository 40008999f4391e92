"""The gate's check that an audit has no findings beyond those that it had before the change.

The check passes only after the audit has read the ledgers beyond the time at which the gate began,
by the audit's clock: an audit that has stopped reading would show an old state.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from audit.api.answers import AgentRow, AgentsAnswer, Findings, TopicsAnswer
from audit.api.queries import MOST_ITEMS
from ground.http.client import HttpUrl
from penstock.cli.failures import Failed
from penstock.gate.baseline import AuditBefore, KnownFinding
from penstock.gate.reasons import Reason, Trouble, some
from penstock.report.audit_requests import ask

ABOUT: Final = "audit"
SECONDS: Final = 10.0
_MOST_PAGES: Final = 40
_LONGEST: Final = 300  # characters of a finding

T = TypeVar("T")


class GateAudit:
    """Requests to an audit. All methods raise Failed with the reason."""

    def __init__(self, at: HttpUrl, cluster: str = "") -> None:
        self.at = at
        self._cluster = cluster

    def get(self, path: str, kind: type[T], **parameters: Any) -> T:
        values = {name.rstrip("_"): value for name, value in parameters.items()}
        return ask(self.at, path, {"cluster": self._cluster, **values}, kind, seconds=SECONDS)

    def topics(self) -> TopicsAnswer:
        return self.get("topics", TopicsAnswer, size=1)

    def findings(self) -> list[tuple[KnownFinding, str]]:
        """Returns all findings that no operator has accepted, with their texts."""
        findings: list[tuple[KnownFinding, str]] = []
        for page in range(1, _MOST_PAGES + 1):
            answer = self.get("findings", Findings, accepted="false", page=page, size=MOST_ITEMS)
            findings += [
                (KnownFinding.of(topic, item), item.words)
                for topic, item in zip(answer.topics, answer.items, strict=True)
            ]
            if page * MOST_ITEMS >= answer.page.total:
                return findings
        raise Failed(
            f"the audit at {self.at} has {answer.page.total:,} findings, too many to compare"
        )

    def silent(self) -> list[AgentRow]:
        """Returns agents that have become silent. Hosts that never reported are left out: no change
        silenced them, and when a run adds a host to the inventory, it installs that host last."""
        agents: list[AgentRow] = []
        for page in range(1, _MOST_PAGES + 1):
            answer = self.get("agents", AgentsAnswer, state="silent", page=page, size=MOST_ITEMS)
            agents += answer.items
            if page * MOST_ITEMS >= answer.page.total:
                return agents
        raise Failed(f"the audit at {self.at} has too many silent agents to compare")

    def before(self) -> AuditBefore:
        topics = self.topics()
        return AuditBefore(
            findings=[finding for finding, _ in self.findings()],
            failing_loads=[
                (load.cluster, load.topic, load.destination) for load in topics.failing_loads
            ],
            silent=[_agent(agent) for agent in self.silent()],
        )


class AuditCheck:
    about = ABOUT

    def __init__(self, audit: GateAudit, before: AuditBefore) -> None:
        self._audit = audit
        self._before = before
        self._known = {finding.subject: list[KnownFinding]() for finding in before.findings}
        for finding in before.findings:
            self._known[finding.subject].append(finding)
        self._since = -1  # by the audit's clock

    def close(self) -> None:
        """Does nothing, as requests leave no connection open."""

    def look(self) -> Sequence[Reason]:
        try:
            topics = self._audit.topics()
            if self._since < 0:
                self._since = topics.now
            if topics.as_of <= self._since:
                seconds = max(0, topics.now - topics.as_of) // 1000
                lag = "; ".join([f"it last read the ledgers {seconds:,} s ago", *topics.notices])
                return [Reason(ABOUT, Trouble.SILENCE, f"it does not keep up: {lag}")]
            return list(self._new(topics))
        except Failed as error:
            return [Reason(ABOUT, Trouble.SILENCE, error.message)]

    def _new(self, topics: TopicsAnswer) -> Iterator[Reason]:
        findings = [
            words[:_LONGEST]
            for finding, words in self._audit.findings()
            if not self._is_known(finding)
        ]
        if findings:
            count = "a new finding" if len(findings) == 1 else f"{len(findings):,} new findings"
            yield Reason(ABOUT, Trouble.NEW, f"{count}: {some(findings)}")
        for load in topics.failing_loads:
            if (load.cluster, load.topic, load.destination) not in self._before.failing_loads:
                words = f"{load.topic or 'every table'} is not loaded: {load.reason}"
                yield Reason(ABOUT, Trouble.NEW, words[:_LONGEST])
        silent_agents = [
            agent for agent in self._audit.silent() if _agent(agent) not in self._before.silent
        ]
        if silent_agents:
            hosts = some(sorted({agent.host for agent in silent_agents}))
            cure = "start penstock-agent there, or retire the host: penstock audit retire HOST"
            yield Reason(ABOUT, Trouble.NEW, f"newly silent agents: {hosts} ({cure})")

    def _is_known(self, finding: KnownFinding) -> bool:
        return any(fault.covers(finding) for fault in self._known.get(finding.subject, ()))


def _agent(row: AgentRow) -> tuple[str, str, str]:
    return row.cluster, row.host, row.agent
