"""An audit that has hours of a fleet, is asked again and again, and hears of the minutes that come.

Its database is there when it starts, folded within this process; `_audit` has what comes after.
What an answer takes is measured from outside, on a connection that stays open: no more than that
was spent within.
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
    """Until a minute was seen, and the answers that were given meanwhile; all in seconds."""

    seconds: float
    answers: list[float]


class AuditOfHours(msgspec.Struct):
    """Started."""

    broker: BrokerProcess
    audit: AuditProcess
    ledger: LedgerOfFleet
    kept: Kept
    ready_in: float  # seconds
    connection: http.client.HTTPConnection
    minutes: int  # that it has heard of

    @property
    def fleet(self) -> Fleet:
        return self.ledger.fleet

    @property
    def end(self) -> int:
        """Of the hours that it began with."""
        return self.fleet.begin + self.kept.hours * HOUR

    @property
    def topic(self) -> str:
        """One that is like the others."""
        return f"clicks-{self.fleet.topics // 2:03}"

    @property
    def host(self) -> str:
        """One that ships to it."""
        return f"web-{self.fleet.topics // 4:05}.example.com"

    def ask(self, target: str) -> tuple[float, bytes]:
        """Seconds, and the answer."""
        began = time.perf_counter()
        self.connection.request("GET", target)
        answer = self.connection.getresponse()
        body = answer.read()
        seconds = time.perf_counter() - began
        if answer.status != http.HTTPStatus.OK:
            raise ServerFailed(f"{target} is answered with {answer.status}: {body[:200]!r}")
        return seconds, body

    def hear(self) -> Seen:
        """The fleet's next minute, until a topic has all of it from agents and brokers."""
        start = self.fleet.begin + self.minutes * MINUTE
        _, before = self.ask(self._minute(start - MINUTE))
        batches = self.ledger.minute(self.minutes)
        self.minutes += 1
        publish(self.broker.port, batches)
        began = time.perf_counter()
        answers: list[float] = []
        while (passed := time.perf_counter() - began) < _SEEN_WITHIN:
            seconds, body = self.ask(self._minute(start))
            answers.append(seconds)
            if _counted(body) == _counted(before):  # a minute is like the other
                return Seen(passed + seconds, answers)
            time.sleep(_OFTEN)
        raise ServerFailed(f"a minute of the fleet is not seen within {_SEEN_WITHIN:g} s")

    def _minute(self, start: int) -> str:
        return f"/api/v1/topic?topic={self.topic}&from={start}&to={start + MINUTE}"


def _counted(body: bytes) -> list[int]:
    """By agents and by brokers."""
    answer = msgspec.json.decode(body, type=TopicAnswer)
    return [each.events for each in answer.tiers if each.tier in {"agent", "broker"}]


class Audits(msgspec.Struct):
    """Audits of one cluster. The one that has hours is started when a case first needs it."""

    name: str
    site: AuditSite
    ends: ExitStack
    _of_hours: AuditOfHours | None = None

    def last_words(self, lines: int) -> str:
        return "" if self._of_hours is None else self._of_hours.audit.process.last_words(lines)

    def of_hours(self, context: CaseContext) -> AuditOfHours:
        if self._of_hours is None:
            started = _started(self.site, context.scale, context.files)
            self._of_hours = self.ends.enter_context(started)
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
        kept = fold_hours(audit.data_dir, fleet, scale.kept_hours)
        minutes = fold_until_now(audit.data_dir, fleet, scale.kept_hours * HOUR_MINUTES)
        ledger = site.empty_ledger(fleet, files)
        began = time.perf_counter()
        audit.start(within=PATIENCE)
        ready_in = time.perf_counter() - began
        connection = http.client.HTTPConnection("127.0.0.1", audit.port, timeout=_ANSWERS)
        with contextlib.closing(connection):
            yield AuditOfHours(site.broker, audit, ledger, kept, ready_in, connection, minutes)
