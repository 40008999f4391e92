"""Alerts as a whole: raised, kept, told, resolved, told again. Belongs to the thread that writes.

What is raised and what has been told are in the store before anything else happens, so that a kill
neither raises anything twice nor forgets to resolve it.
"""

import logging
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Final

from msgspec.structs import replace

from audit.alerting.conditions import (
    ALTERED,
    AWAY,
    DEAD,
    FAULTS,
    MOST_RAISED,
    SEEN_WITHOUT_A_LEDGER,
    UNLOADED,
    AlertKey,
    Condition,
    Conditions,
    WaitingCondition,
    decide,
    key_of,
    of_agents,
    of_clusters,
    of_hours,
    of_loads,
    of_shares,
    of_this_host,
    waiting,
)
from audit.alerting.messages import MOST_AT_ONCE, untold
from audit.alerting.notes import AlertNotes
from audit.alerting.notices import Group, groups_of, notice_id
from audit.alerting.receivers import Receivers, Situation
from audit.alerting.webhook import Webhook
from audit.answers import AgentRow, FailingLoad
from audit.config import AuditConfig
from audit.judged_hours import HOUR, HourVerdict
from audit.queries import AgentsQuery
from audit.standing import Standing
from audit.store.fleet import patience
from audit.store.reading import StoreReading
from audit.store.rows import Alert
from audit.store.store import AuditStore

_MOST_UNTOLD: Final = 2 * MOST_RAISED  # that all began, and that all is over
_MOST_SILENT: Final = 5_000
_PAGE: Final = 500
_SLOW_S: Final = 30.0  # from one look at what changes slowly to the next
_OFFER_S: Final = 5.0  # the same groups with other figures

log = logging.getLogger(__name__)

Identity = tuple[AlertKey, int]


class Alerting:
    """`judge` as often as you like."""

    def __init__(
        self,
        store: AuditStore,
        reading: StoreReading,
        config: AuditConfig,
        standing: Standing,
        webhook: Webhook | None,
        *,
        receivers: Receivers | None = None,
        notes: AlertNotes | None = None,
        certificates: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """`certificates`: when they end, by file."""
        self._store = store
        self._reading = reading
        self._config = config
        self._standing = standing
        self._webhook = webhook
        self._receivers = receivers or Receivers()
        self._notes = notes or AlertNotes()
        self._certificates = certificates
        self._slow: dict[AlertKey, Condition] = {}
        self._slow_at = 0.0
        self._offer_at = 0.0
        self.groups: Mapping[str, Group] = {}  # of what stands, by id
        after = int(config.alerts.after * 1000)
        kinds = (*(each.value for each in FAULTS), UNLOADED, AWAY, DEAD, ALTERED)
        self._after = dict.fromkeys(kinds, after)
        self._conditions: Conditions = {}
        self._since: dict[AlertKey, int] = {}
        self._waiting: tuple[WaitingCondition, ...] = ()
        self._taken = 0
        self._raised_before = 0
        # What a former run has raised, and what it has not told.
        kept = reading.unfinished_alerts(MOST_RAISED)
        self._alerts = {_identity(each): each for each in kept}

    @property
    def raised(self) -> int:
        return sum(each.resolved < 0 for each in self._alerts.values())

    @property
    def waiting(self) -> Sequence[WaitingCondition]:
        """What is known and not raised yet: what is due first comes first."""
        return self._waiting

    @property
    def posts(self) -> tuple[int, int]:
        """How many were taken by whoever listens, and how many were not."""
        return self._taken, self._webhook.failed if self._webhook else 0

    def judge(self, hours: Iterable[HourVerdict], as_of: Mapping[str, int], now: int) -> bool:
        """Whether anything was raised or resolved, or waits to be. `as_of` is how far the ledgers
        have been read; of a cluster that is not among them nothing is known, and what is raised
        stays."""
        late = int(self._config.alerts.late * 1000)
        conditions = of_hours(hours, as_of, late, is_gone=self._standing.may_be_gone)
        conditions |= of_agents(self._silent(as_of))
        conditions |= of_loads(self._failing(as_of))
        conditions |= of_clusters(self._standing.clusters)
        conditions |= self._slowly_changing(as_of, now)
        raised = {key_of(each): each for each in self._alerts.values() if each.resolved < 0}
        unknown = self._standing.clusters.keys() - as_of.keys()
        for key, each in raised.items():
            if key.kind not in SEEN_WITHOUT_A_LEDGER and (
                key.cluster in unknown or (unknown and not key.cluster)
            ):
                conditions[key] = self._conditions.get(key, Condition(each.words))
        decided = decide(
            conditions,
            raised,
            self._since,
            now=now,
            after=self._after,
        )
        self._since = dict(decided.since)
        before, self._waiting = self._waiting, waiting(conditions, decided.since, self._after)
        if len(raised) >= MOST_RAISED > self._raised_before:
            log.error("alerts are full, others wait until some are resolved alerts=%d", len(raised))
        self._raised_before = len(raised)
        for each in decided.changed:
            happened = "raised" if each.resolved < 0 else "resolved"
            log.warning("alert %s kind=%s words=%r", happened, each.kind, each.words)
        self._keep([self._or_silenced(each, now) for each in decided.changed])
        self._conditions = conditions
        if decided.changed or monotonic() >= self._offer_at:
            self._offer(unknown, now)
        return bool(decided.changed) or before != self._waiting

    def _slowly_changing(self, as_of: Mapping[str, int], now: int) -> Mapping[AlertKey, Condition]:
        if monotonic() >= self._slow_at:
            self._slow_at = monotonic() + _SLOW_S
            config = self._config.alerts
            shares = self._reading.shares(min(as_of.values(), default=now) - HOUR)
            there = (each for each in shares if each.cluster in as_of)
            free = shutil.disk_usage(self._store.directory).free
            host = platform.node()
            self._slow = of_shares(there, config)
            self._slow |= of_this_host(host, self._certificates(), free, config, now)
        return self._slow

    def _or_silenced(self, alert: Alert, now: int) -> Alert:
        """What began and ended in silence is not told."""
        if alert.resolved < 0 or alert.told_raised or not self._notes.silence(key_of(alert), now):
            return alert
        return alert._replace(told_raised=True, told_resolved=True)

    def _offer(self, unknown: Iterable[str], now: int) -> None:
        """Tells receivers what stands."""
        self._offer_at = monotonic() + _OFFER_S
        standing = [each for each in self._alerts.values() if each.resolved < 0]
        silences = self._notes.silences(now)
        muted = [e for e in standing if any(each.matches(key_of(e)) for each in silences)]
        quiet = set(map(_identity, muted))
        loud = [each for each in standing if _identity(each) not in quiet]
        links = {"page": self._config.page_url, "runbook": self._config.runbook_url}
        groups = {
            name: replace(each, muted=True)
            for name, each in groups_of(muted, self._conditions, **links).items()
        }
        for name, each in groups_of(loud, self._conditions, **links).items():
            groups[name] = replace(each, muted=bool(self._notes.acknowledgement(name, now)))
        self.groups = groups
        there = {notice_id(key) for key in self._conditions}
        there |= {notice_id(key_of(each)) for each in standing}
        self._receivers.offer(Situation(groups, frozenset(there), frozenset(unknown)))
        if not unknown:
            self._notes.forget_resolved(there)

    def tell(self, now: int) -> None:
        """Says what is to be said, as fast as it is taken."""
        if self._webhook is None:
            return
        self._note_told()
        if self._webhook.is_busy:
            return
        silences = self._notes.silences(now)
        waiting = untold(
            alert
            for alert in self._alerts.values()
            if not any(each.matches(key_of(alert)) for each in silences)
        )
        if len(waiting) > _MOST_UNTOLD:
            dropped = [alert for alert, _ in waiting[: len(waiting) - _MOST_UNTOLD]]
            log.error(
                "webhook does not take alerts, the oldest are dropped alerts=%d", len(dropped)
            )
            self._keep(
                [e._replace(told_raised=True, told_resolved=e.resolved >= 0) for e in dropped]
            )
            return
        self._webhook.offer([message for _, message in waiting[:MOST_AT_ONCE]])

    def _note_told(self) -> None:
        told: dict[Identity, Alert] = {}
        sent = self._webhook.sent() if self._webhook else ()
        for message in sent:
            key = AlertKey(message.kind, message.cluster, message.topic, message.host, message.hour)
            identity = (key, message.raised)
            alert = told.get(identity) or self._alerts.get(identity)
            if alert is not None:
                resolved = message.status == "resolved"
                told[identity] = alert._replace(
                    told_raised=True, told_resolved=alert.told_resolved or resolved
                )
        self._keep(list(told.values()))
        self._taken += bool(sent)

    def _keep(self, changed: list[Alert]) -> None:
        if self._webhook is None:
            changed = [e._replace(told_raised=True, told_resolved=e.resolved >= 0) for e in changed]
        if changed:
            self._store.keep_alerts(changed)
        for each in changed:
            if each.resolved >= 0 and each.told_resolved:
                self._alerts.pop(_identity(each), None)
            else:
                self._alerts[_identity(each)] = each

    def _failing(self, as_of: Mapping[str, int]) -> Iterator[FailingLoad]:
        """Of topics that were deleted nothing is loaded any more."""
        found = self._reading.failing_loads()
        there = self._standing.those_there(self._reading.topics()) if found else frozenset()
        for each in found:
            if each.cluster in as_of and (each.cluster, each.topic) in there:
                yield each

    def _silent(self, as_of: Mapping[str, int]) -> Iterator[AgentRow]:
        """Never heard counts once the ledgers have been read for as long as silence takes."""
        for name, time in as_of.items():
            yield from self._agents("silent", time, name)
        if as_of.keys() < self._standing.clusters.keys():
            return
        began = self._standing.read_since
        if began and min(as_of.values()) - began >= self._config.alerts.silent * 1000:
            yield from self._agents("never", min(as_of.values()), "")

    def _agents(self, state: str, now: int, cluster: str) -> Iterator[AgentRow]:
        for page in range(1, _MOST_SILENT // _PAGE + 1):
            query = AgentsQuery(cluster=cluster, state=state, sort="host", page=page, size=_PAGE)
            found = self._reading.agents(query, patience(self._config, now, by_pace=False))
            yield from found.items
            if page * _PAGE >= found.page.total:
                return


def _identity(alert: Alert) -> Identity:
    return key_of(alert), alert.raised
