"""An audit whose database has hours of a fleet, and which answers requests while it reads further
minutes.

Its database, folded in this process, exists when it starts; `_audit` has the later entries. The
latency of answers is measured at the client, on a persistent connection.
"""

import contextlib
import http.client
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from audit.api.answers import TopicAnswer
from bench.contents.audit_fleet import HOUR, MINUTE, Fleet
from bench.contents.kept_hours import Kept, fold_hours, fold_until_now
from bench.contents.ledger_entries import HOUR_MINUTES, LedgerOfFleet, publish
from bench.figures.profile import CaseContext, Scale, ServerKind
from bench.servers.audit_site import AuditSite, audit_site, fleet_of
from bench.servers.brokers import PENSTOCK
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import ServerFailed

PATIENCE: Final = 3_600.0
_ANSWERS: Final = 60.0
_SEEN_WITHIN: Final = 120.0
_OFTEN: Final = 0.05


class Seen(msgspec.Struct, frozen=True):
    """The seconds until a minute became visible, and the latencies of the answers until then."""

    seconds: float
    answers: list[float]


class AuditOfHours(msgspec.Struct):
    """A started audit."""

    broker: BrokerProcess
    audit: AuditProcess
    ledger: LedgerOfFleet
    kept: Kept
    ready_in: float  # seconds
    connection: http.client.HTTPConnection
    minutes: int  # in its database and `_audit`

    @property
    def fleet(self) -> Fleet:
        return self.ledger.fleet

    @property
    def end(self) -> int:
        """The end of the hours that were in its database at the start."""
        return self.fleet.begin + self.kept.hours * HOUR

    @property
    def topic(self) -> str:
        """A typical topic."""
        return f"clicks-{self.fleet.topics // 2:03}"

    @property
    def host(self) -> str:
        """A host that ships to the topic."""
        return f"web-{self.fleet.topics // 4:05}.example.com"

    def ask(self, target: str) -> tuple[float, bytes]:
        """Requests a page; returns the latency in seconds, and the answer's body."""
        start_time = time.perf_counter()
        self.connection.request("GET", target)
        answer = self.connection.getresponse()
        body = answer.read()
        seconds = time.perf_counter() - start_time
        if answer.status != http.HTTPStatus.OK:
            raise ServerFailed(f"{target}: status {answer.status}: {body[:200]!r}")
        return seconds, body

    def hear(self) -> Seen:
        """Publishes the fleet's next minute, and waits until the audit has counted all of its
        events, at agents and at brokers."""
        start = self.fleet.begin + self.minutes * MINUTE
        _, body_before = self.ask(self._minute(start - MINUTE))
        batches = self.ledger.minute(self.minutes)
        self.minutes += 1
        publish(self.broker.port, batches)
        start_time = time.perf_counter()
        answers: list[float] = []
        while (elapsed := time.perf_counter() - start_time) < _SEEN_WITHIN:
            seconds, body = self.ask(self._minute(start))
            answers.append(seconds)
            if _counted(body) == _counted(body_before):  # all minutes have equal counts
                return Seen(elapsed + seconds, answers)
            time.sleep(_OFTEN)
        raise ServerFailed(f"the audit did not count a minute within {_SEEN_WITHIN:g} s")

    def _minute(self, start: int) -> str:
        return f"/api/v1/topic?topic={self.topic}&from={start}&to={start + MINUTE}"


def _counted(body: bytes) -> list[int]:
    """The events counted by agents and by brokers."""
    answer = msgspec.json.decode(body, type=TopicAnswer)
    return [tier.events for tier in answer.tiers if tier.tier in {"agent", "broker"}]


class Audits(msgspec.Struct):
    """Audits of one cluster; the one with hours starts when a case first needs it."""

    name: str
    site: AuditSite
    ends: ExitStack
    _of_hours: AuditOfHours | None = None

    def last_words(self, lines: int) -> str:
        return "" if self._of_hours is None else self._of_hours.audit.process.last_words(lines)

    def of_hours(self, context: CaseContext) -> AuditOfHours:
        if self._of_hours is None:
            audit = _started(self.site, context.scale, context.files)
            self._of_hours = self.ends.enter_context(audit)
        return self._of_hours


def audits_of(context: CaseContext) -> Audits:
    assert isinstance(context.server, Audits)
    return context.server


@contextlib.contextmanager
def _audits(home: Path) -> Iterator[Audits]:
    with audit_site(home) as site, ExitStack() as ends:
        yield Audits(PENSTOCK, site, ends)


AUDITS: Final[Mapping[str, ServerKind]] = {PENSTOCK: _audits}


@contextlib.contextmanager
def _started(site: AuditSite, scale: Scale, files: Path) -> Iterator[AuditOfHours]:
    fleet = fleet_of(scale, scale.kept_hours)
    with site.audit(fleet, "hours") as audit:
        kept_hours = fold_hours(audit.data_dir, fleet, scale.kept_hours)
        minutes = fold_until_now(audit.data_dir, fleet, scale.kept_hours * HOUR_MINUTES)
        ledger = site.empty_ledger(fleet, files)
        start_time = time.perf_counter()
        audit.start(within=PATIENCE)
        ready_seconds = time.perf_counter() - start_time
        connection = http.client.HTTPConnection("127.0.0.1", audit.port, timeout=_ANSWERS)
        with contextlib.closing(connection):
            yield AuditOfHours(
                site.broker, audit, ledger, kept_hours, ready_seconds, connection, minutes
            )
