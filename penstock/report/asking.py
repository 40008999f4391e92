"""The audit's verdict, asked for: what `penstock report` shows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from audit.answers import ReportAnswer
from audit.verdicts import State, worst
from ground.http_client import HttpUrl
from penstock.cli.failures import Failed
from penstock.cli.time_arguments import DAY_MILLIS, HOUR_MILLIS, TimeRange
from penstock.report.audit_address import Parameters, ask

_LATELY_MILLIS: Final = 60_000  # a ledger that was read since then is read all the time


def asked_report(
    audit: HttpUrl, topics: Sequence[str], cluster: str, asked: TimeRange
) -> ReportAnswer:
    """Of all topics, or of each of these. Failed if there is no answer, or no such topic."""
    reports = [_one(audit, topic, cluster, asked) for topic in dict.fromkeys(topics) or [""]]
    return msgspec.structs.replace(
        reports[0],
        state=worst([each.state for each in reports]),
        now=max(each.now for each in reports),
        as_of=min(each.as_of for each in reports),
        topics=[topic for each in reports for topic in each.topics],
    )


def _one(audit: HttpUrl, topic: str, cluster: str, asked: TimeRange) -> ReportAnswer:
    parameters: Parameters = {
        "topic": topic,
        "cluster": cluster,
        "from": asked.begin,
        "to": asked.end,
    }
    report = ask(audit, "report", parameters, ReportAnswer)
    if topic and not report.topics:
        where = f" in cluster {cluster}" if cluster else ""
        raise Failed(f"the audit at {audit} knows no topic {topic}{where}")
    return report


def verdict(report: ReportAnswer) -> State:
    """Complete only if something is known, and up to the end of what was asked; or to about now."""
    known = report.as_of >= min(report.to_time, report.now - _LATELY_MILLIS)
    if not report.topics or not known:
        return worst([report.state, State.PENDING])
    return report.state


def last_day(now: datetime) -> TimeRange:
    """The whole hours of the last day: the one that is under way is never complete."""
    end = int(now.timestamp() * 1000) // HOUR_MILLIS * HOUR_MILLIS
    return TimeRange(end - DAY_MILLIS, end)
