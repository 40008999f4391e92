"""Raises alerts, stores them, passes them to receivers, and resolves them. Runs on the writing
thread.

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
    SIGNATURES,
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
    of_signatures,
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
from audit.silence import refused_logins
from audit.store.fleet.agents import SilencePatience, patience
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
_FORGED_MILLIS: Final = 86_400_000  # after a fault of signatures was noticed
_OFFER_S: Final = 5.0  # between two offers of the same groups with other figures

log = logging.getLogger(__name__)


class Alerting:
    """All alerts of the audit. `judge` may be called at any time."""

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
        self._full_disks: dict[str, set[int]] = {}
        self._programs: list[Program] = []
        self._offer_at = 0.0
        self.groups: Mapping[str, Group] = {}  # of current alerts, by id
        self._accepted: dict[str, Kinds] = {}  # of faults that are over, by id of their notice
        wait_millis = int(config.alerts.after * 1000)
        kinds = (UNLOADED, AWAY, DEAD, ALTERED, CLOCK, SIGNATURES, ZOOKEEPER, INPUTS)
        self._after = dict.fromkeys((*(kind.value for kind in FAULTS), *kinds), wait_millis)
        self._conditions: Conditions = {}
        self.ending: Mapping[AlertKey, Ending] = {}
        self._since: dict[AlertKey, int] = {}
        self._waiting: tuple[WaitingCondition, ...] = ()
        self._raised_before = 0
        # Alerts of a former run, and those resolved recently.
        self._raised = {key_of(alert): alert for alert in reading.raised_alerts(MOST_RAISED)}
        _, resolved_alerts = reading.alerts(AlertsQuery(state="resolved", size=_PAGE))
        self._held = Held(known_before(resolved_alerts))

    @property
    def raised(self) -> int:
        return len(self._raised)

    @property
    def conditions(self) -> Conditions:
        """The current conditions, raised or not."""
        return self._conditions

    @property
    def waiting(self) -> Sequence[WaitingCondition]:
        """Conditions that are not raised yet, in the order in which they are due."""
        return self._waiting

    @property
    def _known(self) -> Conditions:
        """Conditions, and the last ones of alerts whose condition is gone."""
        return {
            **{key: condition for key, (condition, _) in self.ending.items()},
            **self._conditions,
        }

    def judge(self, hours: Iterable[HourVerdict], as_of: Mapping[str, int], now: int) -> bool:
        """Raises and resolves alerts; returns whether any alert or waiting condition changed.
        `as_of`: the time up to which each cluster's ledger was read. Alerts of other clusters are
        left unchanged."""
        late_millis = int(self._config.alerts.late * 1000)
        conditions = of_hours(hours, as_of, late_millis, is_gone=self._standing.may_be_gone)
        wrong_hosts = {(key.cluster, key.host) for key in self._raised if key.kind == CLOCK}
        clock_errors = self._standing.clocks.wrong(now, wrong_hosts)
        conditions |= of_clocks(clock_errors)
        silent_agents = list(self._silent(as_of))
        clusters = self._standing.clusters
        unheard_clusters = {
            cluster: clusters[cluster]
            for cluster in {row.cluster for row in silent_agents} & clusters.keys()
            if not self._is_heard(cluster, as_of)
        }
        conditions |= of_agents(
            silent_agents,
            self._commands,
            unheard=unheard_clusters,
            refused=refused_logins(self._programs),
        )
        conditions |= of_loads(self._failing(as_of), self._config.commands)
        conditions |= self._slowly_changing(as_of, now)
        conditions |= of_signatures(
            self._reading.proof_faults(since=now - _FORGED_MILLIS), self._commands
        )
        conditions |= of_clusters(self._standing.clusters, self._programs, self._commands)
        raised_alerts, last_conditions = self._raised, self._known
        unknown_clusters = self._unknown(as_of)
        for key, alert in raised_alerts.items():
            is_clock_unknown = key.kind == CLOCK and self._standing.clocks.is_unknown(
                (key.cluster, key.host), now
            )
            if is_clock_unknown or unknown_clusters.has(key.kind, key.cluster):
                conditions[key] = last_conditions.get(key, Condition(alert.words))
        ends = self._reading.load_ends() if any(key.kind == LOADER for key in raised_alerts) else []
        conditions |= unfinished(raised_alerts, conditions, self._programs, ends, as_of)
        self._held = held(self._held, conditions, raised_alerts, now, self._grace)

        def is_held(key: AlertKey, began: int) -> bool:
            is_new = now < began + _LOOKS_MILLIS
            return key in self._held.by or (is_new and self._may_follow(key, began))

        endings_before, keep_for = self.ending, int(self._config.alerts.keep_for * 1000)
        current_endings = endings(
            raised_alerts, conditions, last_conditions, endings_before, now=now, keep_for=keep_for
        )
        self.ending = current_endings
        decision = decide(
            *(conditions, raised_alerts, self._since),
            now=now,
            after=self._after,
            ending=current_endings,
            is_held=is_held,
        )
        self._since = dict(decision.since)
        waiting_before = self._waiting
        self._waiting = waiting(conditions, decision.since, self._after, self._until)
        if len(raised_alerts) >= MOST_RAISED > self._raised_before:
            log.error(
                "too many alerts, the others wait until some are resolved alerts=%d",
                len(raised_alerts),
            )
        self._raised_before = len(raised_alerts)
        for alert in decision.changed:
            outcome = "raised" if alert.resolved < 0 else "resolved"
            log.warning("alert %s kind=%s words=%r", outcome, alert.kind, alert.words)
        self._keep(decision.changed)
        self._conditions = conditions
        if decision.changed or monotonic() >= self._offer_at:
            self._offer(unknown_clusters, now)
        has_changes = (
            decision.changed
            or waiting_before != self._waiting
            or endings_before.keys() != current_endings.keys()
        )
        return bool(has_changes)

    def _grace(self, cluster: str) -> int:
        """How long consequences may take to recover: tables do with the next loads."""
        intervals = [
            program.interval
            for program in self._programs
            if program.kind is ProgramKind.LOADER and program.cluster == cluster
        ]
        return max(LEAST_GRACE, *self._after.values(), _LOADS * max(intervals, default=0))

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
        full_disks = {
            name: {broker for broker, disks in cluster.disks.items() if disks.is_stuck}
            for name, cluster in self._standing.clusters.items()
        }
        if monotonic() >= self._slow_at or full_disks != self._full_disks:
            self._full_disks = full_disks
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
                **of_shares(known_shares, config, self._commands, self._raised),
                **of_programs(programs, config, self._commands, as_of, now, raised=self._raised),
            }
        return self._slow

    def _offer(self, unknown: UnknownClusters, now: int) -> None:
        """Offers the current groups to the receivers."""
        self._offer_at = monotonic() + _OFFER_S
        silences = self._notes.silences(now)
        muted_alerts: list[Alert] = []
        loud_alerts: list[Alert] = []
        for key, alert in self._raised.items():
            is_muted = any(silence.matches(key) for silence in silences)
            (muted_alerts if is_muted else loud_alerts).append(alert)
        groups = {
            group_id: replace(group, muted=True)
            for group_id, group in self._groups_of(muted_alerts).items()
        }
        for group_id, group in self._groups_of(loud_alerts).items():
            groups[group_id] = replace(
                group, muted=bool(self._notes.acknowledgement(group_id, now))
            )
        self.groups = groups
        open_keys = (key for key in self._conditions if key not in self._held.by)
        open_ids = {notice_id(key) for key in (*open_keys, *self._raised)}
        self._receivers.offer(Situation(groups, frozenset(open_ids), unknown, self._endings()))
        if not unknown.unread:
            self._notes.forget_resolved(open_ids)

    def _endings(self) -> dict[str, str]:
        """How faults have ended, by id of their notice."""
        return {
            group_id: f"except for {accepted_kinds(counts)}" if counts else "mended"
            for group_id, counts in self._accepted.items()
        }

    def _groups_of(self, alerts: Sequence[Alert]) -> Mapping[str, Group]:
        """Groups alerts, and adds to causes what they hold up."""
        links = {"page": self._config.page_url, "runbook": self._config.runbook_url}
        groups = groups_of(alerts, self._known, self._commands, **links)
        causes = [key for alert in alerts if (key := key_of(alert)) in self._held.causes]
        ends = self._reading.load_ends() if causes else []
        for group_id in {notice_id(key) for key in causes} & groups.keys():
            own_causes = [key for key in causes if notice_id(key) == group_id]
            notice = replace(
                groups[group_id].notice, holds_up=holds_up(own_causes, self._held, ends)
            )
            groups[group_id] = replace(groups[group_id], notice=notice)
        return groups

    def _keep(self, changed: Sequence[Alert]) -> None:
        if changed:
            self._store.keep_alerts(changed)
        for alert in changed:
            group_id = notice_id(key_of(alert))
            if alert.resolved >= 0:
                self._raised.pop(key_of(alert), None)
                if alert.kind in FAULTS:
                    hour_counts = self._reading.accepted_in(alert.cluster, alert.topic, alert.hour)
                    kind_counts = (
                        counts for counts in hour_counts if counts.kind.state == alert.kind
                    )
                    self._accepted[group_id] = summed(
                        [*self._accepted.get(group_id, ()), *kind_counts]
                    )
            else:
                self._raised[key_of(alert)] = alert
                if group_id not in self.groups:  # a new fault
                    self._accepted.pop(group_id, None)

    def _failing(self, as_of: Mapping[str, int]) -> Iterator[FailingLoad]:
        """Failing loads of existing topics."""
        loads = self._reading.failing_loads()
        topics = self._standing.those_there(self._reading.topics()) if loads else frozenset()
        for load in loads:
            if load.cluster in as_of and (load.cluster, load.topic) in topics:
                yield load

    def _silent(self, as_of: Mapping[str, int]) -> Iterator[AgentRow]:
        """Silent agents, and hosts that were never heard. The latter count once the ledgers have
        been read for as long as an agent may be silent; an alert of an earlier process stays until
        the host is heard."""
        for cluster, time in as_of.items():
            yield from self._agents("silent", time, cluster)
        if as_of.keys() < self._standing.clusters.keys():
            return
        now, start = min(as_of.values()), self._standing.read_since
        is_due = start and now - start >= self._config.alerts.silent * 1000
        for row in self._agents("never", now, ""):
            if is_due or AlertKey(SILENT, row.cluster, "", row.host) in self._raised:
                yield row

    def _is_heard(self, cluster: str, as_of: Mapping[str, int]) -> bool:
        """Whether any agent of the cluster is heard."""
        limits = self._patience(as_of.get(cluster, 0))
        agents = self._reading.agents(AgentsQuery(cluster=cluster, size=1), limits)
        return any(agents.by_state.get(state) for state in ("ok", "behind"))

    def _patience(self, now: int) -> SilencePatience:
        return patience(self._config, now, self._standing.clocks, by_pace=False)

    def _agents(self, state: str, now: int, cluster: str) -> Iterator[AgentRow]:
        for page in range(1, _MOST_SILENT // _PAGE + 1):
            query = AgentsQuery(cluster=cluster, state=state, sort="host", page=page, size=_PAGE)
            agents = self._reading.agents(query, self._patience(now))
            yield from agents.items
            if page * _PAGE >= agents.page.total:
                return
