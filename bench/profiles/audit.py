"""The audit of a fleet's ledger: the speed of folding, its disk and memory, and its pages' latency.

Penstock's folding is compared with a plain program that folds row by row.
"""

import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from bench.contents.audit_fleet import HOUR
from bench.contents.kept_hours import database_bytes
from bench.contents.ledger_entries import HOUR_MINUTES, LedgerOfFleet, publish
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.processes import cpu_seconds, peak_bytes
from bench.figures.profile import Case, CaseContext, Profile
from bench.ledger_folding import SCHEMA_ID, folder_of
from bench.servers.audit_services import PATIENCE, AuditOfHours, audits_of
from bench.servers.audit_site import fleet_of
from bench.servers.brokers import PENSTOCK

ENTRIES_PER_SECOND: Final = Figure("entries/s", more_is_better=True)
IN_STORE: Final = Figure("entries/s, folding alone", more_is_better=True)
ENTRIES: Final = Figure("entries")
_CPU: Final = Figure("CPU-s per million entries", 1)
READY: Final = Figure("seconds until ready", 1)
DATABASE: Final = Figure("MB on the disk", 1)
DAY: Final = Figure("MB a day, extrapolated")
WEEK: Final = Figure("GB of 7 days, extrapolated", 2)
_FIRST_HOUR: Final = Figure("entries/s in the first hour", more_is_better=True)
_LAST_HOUR: Final = Figure("entries/s in the last hour", more_is_better=True)
MEDIAN: Final = Figure("median, ms", 1)
WORST: Final = Figure("worst, ms", 1)
_KILOBYTES: Final = Figure("kB", 1)
SEEN: Final = Figure("seconds until seen, median", 2)
_SEEN_WORST: Final = Figure("worst", 2)
_MEANWHILE: Final = Figure("worst answer meanwhile, ms", 1)
PEAK: Final = Figure("peak RSS, MB")

_MINUTES_HEARD: Final = 5
_SECONDS_ASKED: Final = 20.0  # at most, for a page
_ROWS_SHARE: Final = 20  # a twentieth of the minutes, since its speed never improves
_WEEK_HOURS: Final = 7 * 24


def _minutes(ledger: LedgerOfFleet, minutes: int) -> Iterator[list[bytes]]:
    for minute in range(minutes):
        yield [data for _, data in ledger.minute(minute)]


def _fold(context: CaseContext) -> Sample:
    scale = context.scale
    hours = -(-scale.told_minutes // HOUR_MINUTES)
    ledger = LedgerOfFleet(fleet_of(scale, hours), SCHEMA_ID, context.files)
    is_penstock = context.server.name == PENSTOCK
    minutes = scale.told_minutes if is_penstock else max(1, scale.told_minutes // _ROWS_SHARE)
    result = folder_of(context).fold(_minutes(ledger, minutes))
    return {
        ENTRIES_PER_SECOND: result.entries / result.seconds,
        ENTRIES: result.entries,
        **({IN_STORE: result.entries / result.in_store} if is_penstock else {}),
    }


FOLDING: Final = Profile(
    "audit-folding",
    "entries of a fleet's agents, brokers and loader, from record batches into a new database",
    (
        Case(
            "decoded and folded",
            _fold,
            (Goal(IN_STORE, at_least=100_000), Goal(ENTRIES_PER_SECOND, ahead=True)),
        ),
    ),
)


def _read_anew(context: CaseContext) -> Sample:
    """A new service reads all of `_audit`; its start is included."""
    scale, site = context.scale, audits_of(context).site
    fleet = fleet_of(scale, -(-scale.told_minutes // HOUR_MINUTES))
    ledger = site.empty_ledger(fleet, context.files)
    entries = 0
    for minute in range(scale.told_minutes):
        batches = ledger.minute(minute)
        publish(site.broker.port, batches)
        entries += len(batches)
    with site.audit(fleet, "anew") as audit:
        start_time = time.perf_counter()
        audit.start(within=PATIENCE)
        seconds = time.perf_counter() - start_time
        pid = audit.process.pid
        return {
            ENTRIES_PER_SECOND: entries / seconds,
            ENTRIES: entries,
            READY: seconds,
            _CPU: cpu_seconds(pid) / entries * 1e6,
            PEAK: peak_bytes(pid) / 1e6,
            DATABASE: database_bytes(audit.data_dir) / 1e6,
        }


def _on_disk(context: CaseContext) -> Sample:
    kept_hours = audits_of(context).of_hours(context).kept
    return {
        DATABASE: kept_hours.bytes / 1e6,
        DAY: (kept_hours.bytes_after(kept_hours.hours + 24) - kept_hours.bytes) / 1e6,
        WEEK: kept_hours.bytes_after(_WEEK_HOURS) / 1e9,
        _FIRST_HOUR: kept_hours.first_rate,
        _LAST_HOUR: kept_hours.last_rate,
    }


def _ready(context: CaseContext) -> Sample:
    return {READY: audits_of(context).of_hours(context).ready_in}


def _page(context: CaseContext, *, target: str) -> Sample:
    audit = audits_of(context).of_hours(context)
    target_of_audit = _filled(target, audit)
    times: list[float] = []
    size = 0
    while len(times) < context.scale.questions and sum(times) < _SECONDS_ASKED * 1e3:
        seconds, body = audit.ask(target_of_audit)
        times.append(seconds * 1e3)
        size = len(body)
    return {MEDIAN: statistics.median(times), WORST: max(times), _KILOBYTES: size / 1e3}


def _filled(target: str, audit: AuditOfHours) -> str:
    return target.format(
        topic=audit.topic,
        host=audit.host,
        begin=audit.fleet.begin,
        hour=audit.end - HOUR,
        next_hour=audit.end,
    )


def _hear(context: CaseContext) -> Sample:
    audit = audits_of(context).of_hours(context)
    samples = [audit.hear() for _ in range(min(_MINUTES_HEARD, context.scale.questions))]
    return {
        SEEN: statistics.median(sample.seconds for sample in samples),
        _SEEN_WORST: max(sample.seconds for sample in samples),
        _MEANWHILE: max(answer for sample in samples for answer in sample.answers) * 1e3,
    }


def _memory(context: CaseContext) -> Sample:
    """The peak since the start."""
    audit = audits_of(context).of_hours(context)
    return {PEAK: peak_bytes(audit.audit.process.pid) / 1e6}


_PAGES: Final = {
    "overview": "/api/v1/topics",
    "overview, searched and sorted": "/api/v1/topics?search=clicks&sort=-events&page=2",
    "overview of a week": "/api/v1/topics?hours=168",
    "topic, a day": "/api/v1/topic?topic={topic}",
    "topic, an hour": "/api/v1/topic?topic={topic}&from={hour}&to={next_hour}",
    "topic, all that is kept": "/api/v1/topic?topic={topic}&from={begin}",
    "findings": "/api/v1/findings",
    "findings of a topic": "/api/v1/findings?topic={topic}",
    "hosts": "/api/v1/hosts?topic={topic}",
    "hosts, searched": "/api/v1/hosts?topic={topic}&search=web-00",
    "files": "/api/v1/sources?topic={topic}",
    "files of a host": "/api/v1/sources?topic={topic}&host={host}",
    "agents": "/api/v1/agents",
    "agents, by lag, page 100": "/api/v1/agents?sort=-lag&page=100",
    "agents, searched": "/api/v1/agents?search=web-0012",
    "loads": "/api/v1/loads",
    "loads of a topic": "/api/v1/loads?topic={topic}",
    "brokers and consumers": "/api/v1/brokers",
    "alerts": "/api/v1/alerts",
    "report of a topic, a day": "/api/v1/report?topic={topic}",
    "report of all topics, a day": "/api/v1/report",
    "hour for the loader": "/api/v1/hour?topic={topic}&hour={hour}",
    "metrics": "/metrics",
    "page": "/",
}

SERVICE: Final = Profile(
    "audit-service",
    "a service over the ledger of a fleet: read anew; with hours of it, asked for each page",
    (
        Case("read anew", _read_anew),
        Case("kept hours", _on_disk, (Goal(WEEK, at_most=5),)),
        Case("started with these", _ready),
        *(
            Case(name, partial(_page, target=target), (Goal(WORST, at_most=200),))
            for name, target in _PAGES.items()
        ),
        Case("a minute of the fleet comes", _hear, (Goal(_SEEN_WORST, at_most=2),)),
        Case("memory, after all this", _memory),
    ),
    once=True,
)

PROFILES: Final = (FOLDING, SERVICE)
