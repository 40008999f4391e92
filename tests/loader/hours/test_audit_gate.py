"""What the audit and the topics' ends say together of a table's hours, on values."""

from collections.abc import Mapping

from loader.hours.audit import Asked
from loader.hours.completeness import (
    AuditGate,
    Complete,
    Completeness,
    HourVerdict,
    TopicEnd,
    Waiting,
)
from loader.manifests import PartitionState, TopicState
from loader.tables import HOUR_MILLIS
from tests.loader.hours.manifests import hour

NOW = hour(1)
ENDS = {"a": TopicEnd("1", {0: 10, 1: 0}), "b": TopicEnd("", {0: 5})}


def gate(
    answers: Mapping[Asked, HourVerdict], now: int = NOW, settle_millis: int | None = None
) -> Completeness:
    return AuditGate(answers, ENDS, now, settle_millis)


def state(topic: str, next_offset: int) -> TopicState:
    partition = PartitionState(partition=0, next_offset=next_offset)
    return TopicState(topic=topic, cluster="dc1", topic_id="", partitions=(partition,))


READ = {"a": state("a", 10), "b": state("b", 7)}
ANSWERS: dict[Asked, HourVerdict] = {
    ("a", hour(0)): Complete("audit: agents"),
    ("b", hour(0)): Complete("audit: brokers"),
    ("a", hour(1)): Complete("audit: agents"),
}


def test_complete_once_it_is_read() -> None:
    verdict = gate(ANSWERS).judge(READ, hour(0), events=True)
    assert verdict == Complete("audit: agents; audit: brokers")
    behind = {**READ, "a": state("a", 9)}
    assert gate(ANSWERS).judge(behind, hour(0), events=True) == Waiting(
        "the load, which has not read a to its end"
    )
    missing = gate(ANSWERS).judge({**READ, "b": None}, hour(0), events=True)
    assert missing == Waiting("the load, which has not read b to its end")


def test_all_topics_are_waited_for() -> None:
    answers = {
        **ANSWERS,
        ("a", hour(0)): Waiting("agents on web-1", ("web-1",)),
        ("b", hour(0)): Waiting("12 events, missing at the brokers", ("web-2", "web-1")),
    }
    assert gate(answers).judge(READ, hour(0), events=True) == Waiting(
        "agents on web-1; 12 events, missing at the brokers", ("web-1", "web-2")
    )


def test_hours_that_were_not_asked_about_are_left_as_they_are() -> None:
    assert gate(ANSWERS).judge(READ, hour(1), events=True) is None
    assert gate({}).judge(READ, hour(0), events=True) is None


def test_time_closes_hours_of_other_records() -> None:
    soon, late = NOW + 899_999, NOW + 900_000
    waiting = gate({}, soon).judge(READ, hour(0), events=False)
    assert isinstance(waiting, Waiting)
    assert waiting.missing.startswith("a: time to settle")
    assert gate({}, late).judge(READ, hour(0), events=False) == Complete("time to settle (900 s)")
    settled = gate(ANSWERS, NOW + HOUR_MILLIS, HOUR_MILLIS).judge(READ, hour(0), events=False)
    assert settled == Complete("time to settle (3600 s)")
