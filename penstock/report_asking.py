"""The audit's verdict, asked for: what `penstock report` shows, and the exit code it comes to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from audit.http.answers import Report
from audit.verdicts import State, worst
from penstock.audit_address import Parameters, ask
from penstock.failures import Failed
from penstock.http_address import HttpAddress
from penstock.time_arguments import DAY_MILLIS, HOUR_MILLIS, TimeRange

COMPLETE: Final = 0
FAULTY: Final = 1
PENDING: Final = 2
UNKNOWN: Final = 3
NO_VERDICT: Final = 4
NOT_LOADED: Final = 5

_LATELY_MILLIS: Final = 60_000  # a ledger that was read since then is read all the time


def asked_report(
    audit: HttpAddress, topics: Sequence[str], cluster: str, asked: TimeRange
) -> Report:
    """Of all topics, or of each of these. Failed if there is no answer, or no such topic."""
    reports = [_one(audit, topic, cluster, asked) for topic in dict.fromkeys(topics) or [""]]
    return msgspec.structs.replace(
        reports[0],
        state=worst([each.state for each in reports]),
        now=max(each.now for each in reports),
        as_of=min(each.as_of for each in reports),
        topics=[topic for each in reports for topic in each.topics],
    )


def _one(audit: HttpAddress, topic: str, cluster: str, asked: TimeRange) -> Report:
    parameters: Parameters = {
        "topic": topic,
        "cluster": cluster,
        "from": asked.begin,
        "to": asked.end,
    }
    report = ask(audit, "report", parameters, Report)
    if topic and not report.topics:
        where = f" in cluster {cluster}" if cluster else ""
        raise Failed(f"the audit at {audit} knows no topic {topic}{where}")
    return report


def verdict(report: Report) -> State:
    """Complete only if something is known, and up to the end of what was asked; or to about now."""
    known = report.as_of >= min(report.to_time, report.now - _LATELY_MILLIS)
    if not report.topics or not known:
        return worst([report.state, State.PENDING])
    return report.state


def exit_code(report: Report) -> int:
    """What is wrong counts before what is not known, that before what is not loaded, as waiting
    does not help there, and all of it before what is still to come."""
    state = verdict(report)
    if state is State.PENDING and any(each.failing_loads for each in report.topics):
        return NOT_LOADED
    known = {State.COMPLETE: COMPLETE, State.PENDING: PENDING, State.UNKNOWN: UNKNOWN}
    return known.get(state, FAULTY)


def last_day(now: datetime) -> TimeRange:
    """The whole hours of the last day: the one that is under way is never complete."""
    end = int(now.timestamp() * 1000) // HOUR_MILLIS * HOUR_MILLIS
    return TimeRange(end - DAY_MILLIS, end)
