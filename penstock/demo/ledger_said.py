"""What the audit says of a demonstration, from its first event to its last."""

from collections.abc import Collection
from typing import NamedTuple

from audit.http.answers import Report, TopicReport
from audit.verdicts import State
from penstock.audit_address import Parameters, ask
from penstock.http_address import http_address
from penstock.report_words import failing_words
from penstock.up.places import CLUSTER, WINDOW_SECONDS

_WINDOW_MILLIS = WINDOW_SECONDS * 1000
_TIERS = frozenset({"agent", "broker", "hdfs"})
_FAULTY = frozenset({State.UNKNOWN, State.MISSING, State.DUPLICATED, State.CHANGED})


class Span(NamedTuple):
    """Milliseconds since 1970, of whole windows."""

    begin: int
    end: int


def span(began: float, ended: float) -> Span:
    """The windows of all that happened between two times, in seconds since 1970."""
    begin, end = (int(each * 1000) // _WINDOW_MILLIS for each in (began, ended))
    return Span(begin * _WINDOW_MILLIS, (end + 1) * _WINDOW_MILLIS)


def asked(audit: str, asked_about: Span) -> Report:
    """Raises Failed if there is no answer."""
    parameters: Parameters = {"cluster": CLUSTER, "from": asked_about.begin, "to": asked_about.end}
    return ask(http_address(audit), "report", parameters, Report)


def waits_for(report: Report, topics: Collection[str]) -> str:
    """What is still to come before these topics are judged for good, in words; empty: nothing."""
    found = {each.topic: each for each in report.topics}
    for topic in topics:
        if topic not in found:
            return f"the audit has not heard of {topic} yet"
        if why := _waits_for(found[topic]):
            return f"{topic}: {why}"
    return "" if report.as_of >= report.to_time else "the audit still reads the ledger"


def only_faults(report: Report, topics: Collection[str]) -> bool:
    """Whether something is wrong, and nothing else is still to come."""
    found = [each for each in report.topics if each.topic in topics]
    return (
        report.as_of >= report.to_time
        and len(found) == len(topics)
        and any(each.state in _FAULTY for each in found)
        and not any(_is_under_way(each) for each in found)
    )


def _waits_for(topic: TopicReport) -> str:
    # Who has never spoken of a topic is not waited for by the audit, and would be by us.
    if silent := _silent(topic):
        return f"nothing was heard of {', '.join(silent)} yet"
    if topic.state is State.COMPLETE:
        return ""
    words = [failing_words(each) for each in topic.failing_loads]
    words += [each.words for each in topic.findings] + [each.words for each in topic.waits]
    return words[0] if words else topic.state.value


def _silent(topic: TopicReport) -> list[str]:
    """Tiers from which nothing has come."""
    return sorted(_TIERS - {each.tier for each in topic.tiers if each.events})


def _is_under_way(topic: TopicReport) -> bool:
    waits = topic.state is State.PENDING or topic.pending or topic.waits
    return bool(waits or _silent(topic))
