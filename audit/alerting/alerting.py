"""Raises alerts, stores them, passes them to receivers, and resolves them. For the writing thread.

A raised alert is stored before anything else happens, so that after a kill none is raised twice,
and none stays unresolved.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Final

from msgspec.structs import replace

from audit.alerting.causes import (
    CONSEQUENCES,
    LEAST_GRACE,
    Held,
    held,
    holds_up,
    known_before,
)
from audit.alerting.conditions import (
    ALTERED,
    AWAY,
    CLOCK,
    DEAD,
    FAULTS,
    MOST_RAISED,
    SILENT,
    UNLOADED,
    AlertKey,
    Condition,
    Conditions,
    Ending,
    UnknownClusters,
    WaitingCondition,
    decide,
    endings,
    key_of,
    of_agents,
    of_clocks,
    of_clusters,
    of_hours,
    of_loads,
    of_programs,
    of_shares,
    unfinished,
    waiting,
)
from audit.alerting.notes import AlertNotes
from audit.alerting.notices import Group, groups_of, notice_id
from audit.alerting.receivers import Receivers, Situation
from audit.api.answers import AgentRow, FailingLoad
from audit.api.queries import AgentsQuery, AlertsQuery
from audit.clusters.disks import with_polled_disks
from audit.clusters.state import AuditState
from audit.configuration.config import AuditConfig
from audit.cures.program_commands import ProgramCommands
from audit.programs import INPUTS, LOADER, ZOOKEEPER, Program, ProgramKind, this_audit
from audit.reconciling.findings import Kinds, summed
from audit.reconciling.words import accepted_kinds
from audit.store.fleet.agents import patience
from audit.store.judged_hours import HOUR, HourVerdict
from audit.store.reading import StoreReading
from audit.store.rows import Alert
from audit.store.store import AuditStore
from ledger.health import HealthProbe

_MOST_SILENT: Final = 5_000
_PAGE: Final = 500
_LOOKS_MILLIS: Final = 60_000  # the longest wait for a poll of the cluster's programs
_LOADS: Final = 2  # may begin after a cause is over, until one loads what was held up
_SLOW_S: Final = 30.0  # between two looks at what changes slowly
_OFFER_S: Final = 5.0  # between two offers of the same groups with other figures

log = logging.getLogger(__name__)


class Alerting:
    """All alerts of the audit; `judge` may be called at any time."""

    def __init__(
        self,
        store: AuditStore,
        reading: StoreReading,
        config: AuditConfig,
        standing: AuditState,
        *,
        receivers: Receivers | None = None,
        notes: AlertNotes | None = None,
        probe: HealthProbe | None = None,
    ) -> None:
        """`probe` looks at the audit's own disk and certificates."""
        self._store = store
        self._reading = reading
        self._config = config
        self._commands = ProgramCommands.of(config)
        self._standing = standing
        self._receivers = receivers or Receivers()
        self._notes = notes or AlertNotes()
        self._probe = probe
        self._slow: dict[AlertKey, Condition] = {}
        self._slow_at = 0.0
        self._programs: list[Program] = []
        self._offer_at = 0.0
        self.groups: Mapping[str, Group] = {}  # of current alerts, by id
        self._accepted: dict[str, Kinds] = {}  # of faults that are over, by id of their notice
        after = int(config.alerts.after * 1000)
        kinds = (UNLOADED, AWAY, DEAD, ALTERED, CLOCK, ZOOKEEPER, INPUTS)
        self._after = dict.fromkeys((*(kind.value for kind in FAULTS), *kinds), after)
        self._conditions: Conditions = {}
        self.ending: Mapping[AlertKey, Ending] = {}
        self._since: dict[AlertKey, int] = {}
        self._waiting: tuple[WaitingCondition, ...] = ()
        self._raised_before = 0
        # Alerts of a former run, and those resolved recently.
        self._raised = {key_of(alert): alert for alert in reading.raised_alerts(MOST_RAISED)}
        _, resolved = reading.alerts(AlertsQuery(state="resolved", size=_PAGE))
        self._held = Held(known_before(resolved))

    @property
    def raised(self) -> int:
        return len(self._raised)

    @property
    def conditions(self) -> Conditions:
        """The current conditions, raised or not."""
        return self._conditions

    @property
    def waiting(self) -> Sequence[WaitingCondition]:
        """Conditions that are not raised yet, the first due first."""
        return self._waiting

    @property
    def _known(self) -> Conditions:
        """Conditions, and the last ones of alerts whose condition is gone."""
        return {**{key: last for key, (last, _) in self.ending.items()}, **self._conditions}

    def judge(self, hours: Iterable[HourVerdict], as_of: Mapping[str, int], now: int) -> bool:
        """Raises and resolves alerts; returns whether any alert or waiting condition changed.
        `as_of`: the time up to which each ledger was read. Alerts of clusters that are not in it
        stay."""
        late = int(self._config.alerts.late * 1000)
        conditions = of_hours(hours, as_of, late, is_gone=self._standing.may_be_gone)
        wrong = {(key.cluster, key.host) for key in self._raised if key.kind == CLOCK}
        clocks = self._standing.clocks.wrong(now, wrong)
        conditions |= of_clocks(clocks)
        silent = [row for row in self._silent(as_of) if (row.cluster, row.host) not in clocks]
        clusters = self._standing.clusters
        unheard = {
            name: clusters[name]
            for name in {row.cluster for row in silent} & clusters.keys()
            if not self._is_heard(name, as_of)
        }
        conditions |= of_agents(silent, self._commands, unheard=unheard)
        conditions |= of_loads(self._failing(as_of), self._config.commands)
        conditions |= self._slowly_changing(as_of, now)
        conditions |= of_clusters(self._standing.clusters, self._programs, self._commands)
        raised, known = self._raised, self._known
        unknown = self._unknown(as_of)
        for key, alert in raised.items():
            is_clock_unknown = key.kind == CLOCK and self._standing.clocks.is_unknown(
                (key.cluster, key.host), now
            )
            if is_clock_unknown or unknown.has(key.kind, key.cluster):
                conditions[key] = known.get(key, Condition(alert.words))
        ends = self._reading.load_ends() if any(key.kind == LOADER for key in raised) else []
        conditions |= unfinished(raised, conditions, self._programs, ends, as_of)
        self._held = held(self._held, conditions, raised, now, self._grace)

        def is_held(key: AlertKey, began: int) -> bool:
            is_new = now < began + _LOOKS_MILLIS
            return key in self._held.by or (is_new and self._may_follow(key, began))

        was_ending, keep_for = self.ending, int(self._config.alerts.keep_for * 1000)
        ending = endings(raised, conditions, known, was_ending, now=now, keep_for=keep_for)
        self.ending = ending
        decided = decide(
            *(conditions, raised, self._since),
            now=now,
            after=self._after,
            ending=ending,
            is_held=is_held,
        )
        self._since = dict(decided.since)
        before = self._waiting
        self._waiting = waiting(conditions, decided.since, self._after, self._until)
        if len(raised) >= MOST_RAISED > self._raised_before:
            log.error("too many alerts, more wait until some are resolved alerts=%d", len(raised))
        self._raised_before = len(raised)
        for alert in decided.changed:
            happened = "raised" if alert.resolved < 0 else "resolved"
            log.warning("alert %s kind=%s words=%r", happened, alert.kind, alert.words)
        self._keep(decided.changed)
        self._conditions = conditions
        if decided.changed or monotonic() >= self._offer_at:
            self._offer(unknown, now)
        changed = decided.changed or before != self._waiting or was_ending.keys() != ending.keys()
        return bool(changed)

    def _grace(self, cluster: str) -> int:
        """How long consequences may take to recover: tables do with the next loads."""
        every = [
            program.interval
            for program in self._programs
            if program.kind is ProgramKind.LOADER and program.cluster == cluster
        ]
        return max(LEAST_GRACE, *self._after.values(), _LOADS * max(every, default=0))

    def _until(self, key: AlertKey) -> int:
        return self._held.until(key, self._grace(key.cluster))

    def _may_follow(self, key: AlertKey, began: int) -> bool:
        """Whether it may follow from a cause that no poll has looked for since it began."""
        if key.kind not in CONSEQUENCES or key.cluster not in self._standing.clusters:
            return False
        if self._standing.is_polled(key.cluster, began):
            return False
        self._standing.poll_again(key.cluster, began)
        return True

    def _unknown(self, as_of: Mapping[str, int]) -> UnknownClusters:
        clusters = self._standing.clusters
        return UnknownClusters(
            unread=frozenset(clusters.keys() - as_of.keys()),
            unseen=frozenset(name for name, cluster in clusters.items() if not cluster.is_seen),
        )

    def _slowly_changing(self, as_of: Mapping[str, int], now: int) -> Mapping[AlertKey, Condition]:
        if monotonic() >= self._slow_at:
            self._slow_at = monotonic() + _SLOW_S
            config = self._config.alerts
            read_to = min(as_of.values(), default=now)
            shares = self._reading.shares(read_to - HOUR)
            known_shares = (share for share in shares if share.cluster in as_of)
            programs = self._reading.programs(read_to - int(self._config.expected * 1000))
            programs = with_polled_disks(programs, self._standing.clusters, now)
            self._programs = list(programs)
            if self._probe is not None:
                programs.append(this_audit(self._probe, now))
            self._slow = {
                **of_shares(known_shares, config, self._raised),
                **of_programs(programs, config, self._commands, as_of, now, raised=self._raised),
            }
        return self._slow

    def _offer(self, unknown: UnknownClusters, now: int) -> None:
        """Offers the current groups to the receivers."""
        self._offer_at = monotonic() + _OFFER_S
        silences = self._notes.silences(now)
        muted: list[Alert] = []
        loud: list[Alert] = []
        for key, alert in self._raised.items():
            is_muted = any(silence.matches(key) for silence in silences)
            (muted if is_muted else loud).append(alert)
        groups = {
            name: replace(group, muted=True) for name, group in self._groups_of(muted).items()
        }
        for name, group in self._groups_of(loud).items():
            groups[name] = replace(group, muted=bool(self._notes.acknowledgement(name, now)))
        self.groups = groups
        known = (key for key in self._conditions if key not in self._held.by)
        standing = {notice_id(key) for key in (*known, *self._raised)}
        self._receivers.offer(Situation(groups, frozenset(standing), unknown, self._endings()))
        if not unknown.unread:
            self._notes.forget_resolved(standing)

    def _endings(self) -> dict[str, str]:
        """How faults have ended, by id of their notice."""
        return {
            name: f"except for {accepted_kinds(accepted)}" if accepted else "mended"
            for name, accepted in self._accepted.items()
        }

    def _groups_of(self, alerts: Sequence[Alert]) -> Mapping[str, Group]:
        """Groups alerts, and adds to causes what they hold up."""
        links = {"page": self._config.page_url, "runbook": self._config.runbook_url}
        groups = groups_of(alerts, self._known, self._commands, **links)
        causes = [key for alert in alerts if (key := key_of(alert)) in self._held.causes]
        ends = self._reading.load_ends() if causes else []
        for name in {notice_id(key) for key in causes} & groups.keys():
            own_causes = [key for key in causes if notice_id(key) == name]
            notice = replace(groups[name].notice, holds_up=holds_up(own_causes, self._held, ends))
            groups[name] = replace(groups[name], notice=notice)
        return groups

    def _keep(self, changed: Sequence[Alert]) -> None:
        if changed:
            self._store.keep_alerts(changed)
        for alert in changed:
            name = notice_id(key_of(alert))
            if alert.resolved >= 0:
                self._raised.pop(key_of(alert), None)
                if alert.kind in FAULTS:
                    known = self._reading.accepted_in(alert.cluster, alert.topic, alert.hour)
                    accepted = (counts for counts in known if counts.kind.state == alert.kind)
                    self._accepted[name] = summed([*self._accepted.get(name, ()), *accepted])
            else:
                self._raised[key_of(alert)] = alert
                if name not in self.groups:  # a new fault
                    self._accepted.pop(name, None)

    def _failing(self, as_of: Mapping[str, int]) -> Iterator[FailingLoad]:
        """Failing loads of existing topics."""
        loads = self._reading.failing_loads()
        existing = self._standing.those_there(self._reading.topics()) if loads else frozenset()
        for load in loads:
            if load.cluster in as_of and (load.cluster, load.topic) in existing:
                yield load

    def _silent(self, as_of: Mapping[str, int]) -> Iterator[AgentRow]:
        """Silent agents, and hosts that were never heard. The latter count once the ledgers have
        been read for as long as an agent may be silent; an alert of an earlier process stays until
        the host is heard."""
        for name, time in as_of.items():
            yield from self._agents("silent", time, name)
        if as_of.keys() < self._standing.clusters.keys():
            return
        now, began = min(as_of.values()), self._standing.read_since
        is_due = began and now - began >= self._config.alerts.silent * 1000
        for row in self._agents("never", now, ""):
            if is_due or AlertKey(SILENT, row.cluster, "", row.host) in self._raised:
                yield row

    def _is_heard(self, cluster: str, as_of: Mapping[str, int]) -> bool:
        """Whether any agent of the cluster is heard."""
        patient = patience(self._config, as_of.get(cluster, 0), by_pace=False)
        agents = self._reading.agents(AgentsQuery(cluster=cluster, size=1), patient)
        return any(agents.by_state.get(state) for state in ("ok", "behind"))

    def _agents(self, state: str, now: int, cluster: str) -> Iterator[AgentRow]:
        for page in range(1, _MOST_SILENT // _PAGE + 1):
            query = AgentsQuery(cluster=cluster, state=state, sort="host", page=page, size=_PAGE)
            agents = self._reading.agents(query, patience(self._config, now, by_pace=False))
            yield from agents.items
            if page * _PAGE >= agents.page.total:
                return
