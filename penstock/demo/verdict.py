"""Waits for the audit's verdict on a demonstration, from its first event to its last.

The wait ends when the events have their verdict, or when it cannot become better.
"""

import time
from collections.abc import Collection
from typing import Final, NamedTuple

from audit.api.answers import ReportAnswer, TopicReport
from audit.reconciling.findings import State
from ground.http.client import parse_program_url
from ground.http.security import access_to
from penstock.cli.failures import Failed
from penstock.demo.samples import SAMPLES
from penstock.demo.watch import Watch
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import OFFLINE, WINDOW_SECONDS
from penstock.report.audit_requests import Parameters, ask
from penstock.report.words import failing_words

_WINDOW_MILLIS = WINDOW_SECONDS * 1000
_TIERS = frozenset({"agent", "origin", "broker", "hdfs"})
_FAULTY = frozenset({State.UNKNOWN, State.MISSING, State.DUPLICATED, State.CHANGED})
_SETTLE_SECONDS: Final = 420.0  # Spark starts slowly on a busy machine
_FAULTY_SECONDS: Final = 15.0  # a fault must last so long
_ASK_SECONDS: Final = 1.0


class TimeSpan(NamedTuple):
    """A range of whole windows, in milliseconds since 1970."""

    begin: int
    end: int


def span(began: float, ended: float) -> TimeSpan:
    """Returns the windows between two times, which are in seconds since 1970."""
    begin, end = (int(seconds * 1000) // _WINDOW_MILLIS for seconds in (began, ended))
    return TimeSpan(begin * _WINDOW_MILLIS, (end + 1) * _WINDOW_MILLIS)


def asked(pipeline_access: PipelineAccess, time_span: TimeSpan) -> ReportAnswer:
    """Requests the report on the copies, whose verdicts include those on their origins. Raises
    Failed if the audit does not answer."""
    parameters: Parameters = {"cluster": OFFLINE, "from": time_span.begin, "to": time_span.end}
    audit = parse_program_url(pipeline_access.addresses.audit)
    access = access_to(pipeline_access.audit_security)
    return ask(audit, "report", parameters, ReportAnswer, access=access)


def waits_for(report: ReportAnswer, topics: Collection[str]) -> str:
    """Returns, in words, what the final verdict on these topics is waiting for; empty if
    nothing."""
    reports = {topic.topic: topic for topic in report.topics}
    for topic in topics:
        if topic not in reports:
            return f"{topic} is not known to the audit yet"
        if reason := _waits_for(reports[topic]):
            return f"{topic}: {reason}"
    return "" if report.as_of >= report.to_time else "the audit is still reading the ledger"


def only_faults(report: ReportAnswer, topics: Collection[str]) -> bool:
    """Whether there are faults, and no further reports are expected."""
    reports = [topic for topic in report.topics if topic.topic in topics]
    return (
        report.as_of >= report.to_time
        and len(reports) == len(topics)
        and any(topic.state in _FAULTY for topic in reports)
        and not any(_is_under_way(topic) for topic in reports)
    )


def _waits_for(topic: TopicReport) -> str:
    # Who has never spoken of a topic is not waited for by the audit, and would be by us.
    if silent_agents := _silent(topic):
        return f"no report from {', '.join(silent_agents)} yet"
    if topic.state is State.COMPLETE:
        return ""
    words = [failing_words(failing_load) for failing_load in topic.failing_loads]
    words += [finding.words for finding in topic.findings] + [wait.words for wait in topic.waits]
    return words[0] if words else topic.state.value


def _silent(topic: TopicReport) -> list[str]:
    """The tiers that have reported no event."""
    return sorted(_TIERS - {tier.tier for tier in topic.tiers if tier.events})


def _is_under_way(topic: TopicReport) -> bool:
    is_waiting = topic.state is State.PENDING or topic.pending or topic.waits
    return bool(is_waiting or _silent(topic))


def wait_for_verdict(watch: Watch, time_span: TimeSpan) -> str:
    """Waits for the verdict. If that takes too long, returns in words what is missing; otherwise
    returns an empty text."""
    audit = _Audit(watch.pipeline.access, time_span)
    if watch.until(audit.is_done, _SETTLE_SECONDS):
        return ""
    return f"no verdict {_SETTLE_SECONDS:.0f} s after the last line: {audit.waits_for}"


class _Audit:
    """Polls the audit's report."""

    def __init__(self, pipeline_access: PipelineAccess, time_span: TimeSpan) -> None:
        self._pipeline_access = pipeline_access
        self._time_span = time_span
        self._next = 0.0
        self._faulty_since: float | None = None
        self.waits_for = ""

    def is_done(self) -> bool:
        """Whether further waiting would not change the verdict."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _ASK_SECONDS
        topics = [sample.copy for sample in SAMPLES]
        try:
            report = asked(self._pipeline_access, self._time_span)
        except Failed as error:
            self.waits_for = error.message
            return False
        self.waits_for = waits_for(report, topics)
        if not self.waits_for:
            return True
        if not only_faults(report, topics):
            self._faulty_since = None
        elif self._faulty_since is None:
            self._faulty_since = now
        return self._faulty_since is not None and now - self._faulty_since >= _FAULTY_SECONDS
