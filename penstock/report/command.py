"""`penstock report`: shows the verdict, and ends with its exit code."""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

import click
import msgspec

from audit.alerting.answers import NotedAlert
from audit.api.answers import ReportAnswer, TopicReport
from audit.reconciling.findings import State
from ground.http.client import HttpUrl
from ground.printable import one_line
from penstock.cli.output import json_option, print_json
from penstock.cli.time_arguments import DayType, HourType, TimeRange, TimeType
from penstock.cli.verdict_command import (
    COMPLETE,
    FAULTY,
    NOT_LOADED,
    PENDING,
    TOO_FEW,
    UNKNOWN,
    VerdictCommand,
)
from penstock.connections.cluster import existing_topics
from penstock.report.alerts import raised_alerts
from penstock.report.audit_requests import asked_report, audit_option, last_day, verdict
from penstock.report.page import report_page
from penstock.report.table import show_report
from penstock.report.words import Count


def exit_code(report: ReportAnswer, at_least: int | None = None) -> int:
    """Returns the exit code of the first of these that applies: faults, unknown, not loaded,
    pending, too few events. Not loaded outranks pending, since waiting does not repair it."""
    state = verdict(report)
    if state is State.PENDING and any(topic.failing_loads for topic in report.topics):
        return NOT_LOADED
    if state not in {State.EMPTY, State.COMPLETE}:
        return {State.PENDING: PENDING, State.UNKNOWN: UNKNOWN}.get(state, FAULTY)
    if at_least is None:
        return COMPLETE if state is State.COMPLETE else TOO_FEW
    return COMPLETE if all(arrived(topic) >= at_least for topic in report.topics) else TOO_FEW


def arrived(topic: TopicReport) -> int:
    """Counts the events of a topic at its last tier; if that has several roots, at the root with
    the fewest."""
    return min(
        (tier.events for tier in topic.tiers if tier.tier == topic.tiers[-1].tier), default=0
    )


def _has_events(report: ReportAnswer) -> bool:
    return any(tier.events for topic in report.topics for tier in topic.tiers)


@click.command(cls=VerdictCommand)
@click.argument("topics", nargs=-1, metavar="[TOPIC]…", shell_complete=existing_topics)
@audit_option
@click.option("--cluster", default="", metavar="NAME", help="Only topics of this cluster.")
@click.option("--day", type=DayType(), help="A day: 2026-11-20, today or yesterday.")
@click.option("--hour", type=HourType(), help="An hour, such as 2026-11-20T07.")
@click.option("--from", "begin", type=TimeType(), metavar="TIME", help="The start of a range.")
@click.option(
    "--to",
    "end",
    type=TimeType(),
    metavar="TIME",
    help="The end of the range, exclusive; default: now.",
)
@click.option(
    "--html",
    "page",
    type=click.File("w", encoding="utf-8", lazy=True, atomic=True),
    metavar="FILE",
    help="Also write the report as one HTML file, which can be attached to a mail.",
)
@click.option(
    "--at-least",
    type=click.IntRange(min=0),
    metavar="EVENTS",
    help="Exit with 6 if fewer events of any topic have arrived; 0 allows topics without events.",
)
@json_option
def command(
    *,
    topics: tuple[str, ...],
    audit: HttpUrl,
    cluster: str,
    day: TimeRange | None,
    hour: TimeRange | None,
    begin: int | None,
    end: int | None,
    page: TextIO | None,
    at_least: int | None,
    as_json: bool,
) -> int:
    """Say whether every line has arrived.

    Covers all topics, or those named; without a time, the last 24 whole hours, along with faults
    since then; if these hours have no events, up to now. A range up to now includes raised alerts,
    and is complete up to the moment that the verdict names. Times are UTC unless they carry an
    offset.

    Exit code 0: every line is accounted for; 1: events are missing, duplicated or changed; 2: no
    fault is known, but some lines are still on their way, or an agent does not read all of its
    inputs; 3: no agent was watching for a while, so lines may be lost; 4: no verdict, stderr says
    why; 5: a table cannot be loaded, and there is no other fault; 6: no fault, but no events, or
    fewer than --at-least.

    \b
    Example:
        penstock report
        penstock report page_views --hour 2026-11-20T07
        penstock report page_views --day today --at-least 3
        penstock report --day yesterday --html report.html
        penstock report --from 2026-11-20T06:30 --json
    """
    now = time.time_ns() // 1_000_000
    span = _range(day, hour, begin, end, now)
    report = asked_report(audit, topics, cluster, span)
    newer_report: ReportAnswer | None = None
    alerts: Sequence[NotedAlert] = ()
    if all(option is None for option in (day, hour, begin, end)):
        newer_report = asked_report(audit, topics, cluster, TimeRange(span.end, report.now + 1))
        if _has_events(newer_report) and not _has_events(report):
            span = span._replace(end=now)
            report, newer_report = asked_report(audit, topics, cluster, span), None
    if (newer_report is not None or span.end == now) and not as_json:
        alerts = raised_alerts(audit, topics, cluster)
    if page is not None:
        page.write(report_page(report))
    if as_json:
        print_json(msgspec.to_builtins(report))
    elif page is None or page.name != "-":
        show_report(report, everything=bool(topics), newer=newer_report, alerts=alerts)
    code = exit_code(report, at_least)
    if newer_report is not None and newer_report.state.is_fault and code != FAULTY:
        code = exit_code(newer_report)
    if code == TOO_FEW and at_least is not None:
        for topic in report.topics:
            if (events := arrived(topic)) < at_least:
                line = f"{topic.topic}: {Count(events)} of at least {Count(at_least)} events"
                print(one_line(line), file=sys.stderr)
    return code


def _range(
    day: TimeRange | None, hour: TimeRange | None, begin: int | None, end: int | None, now: int
) -> TimeRange:
    """The time range that the options name, up to now at most."""
    spans = [span for span in (day, hour) if span is not None]
    if len(spans) + (begin is not None or end is not None) > 1:
        raise click.UsageError("pass only one of --day, --hour, and --from with --to")
    if spans:
        range_ = spans[0]
    elif begin is not None:
        range_ = TimeRange(begin, now if end is None else end)
    elif end is not None:
        raise click.UsageError("--to needs --from")
    else:
        range_ = last_day(datetime.fromtimestamp(now / 1000, UTC))
    range_ = range_._replace(end=min(range_.end, now))
    if range_.begin >= range_.end:
        raise click.UsageError("the range must begin before its end, and before now")
    return range_
