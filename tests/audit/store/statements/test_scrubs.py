"""When logs were last read again: the latest times of each partition count, in any order."""

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from audit.api.answers import CheckedLog, LogChecks
from tests.audit.audited_ledger import KEY, AuditedLedger
from tests.audit.store.said import (
    BEGIN,
    HOUR,
    MINUTE,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    passage,
    window,
)

LOGS = [passage(number, 0, 5, [window(BEGIN, 5)]) for number in range(2)]
COUNTED = entry("broker", "broker-1", 0, BEGIN, passages=LOGS)


def at(minute: int) -> int:
    return BEGIN + minute * MINUTE


def scrubbed(
    seq: int, partition: int, recent: int, whole: int, *, tier: str = "broker", **more: object
) -> Json:
    """At these minutes; 0: never."""
    times = {"recent": recent and at(recent), "whole": whole and at(whole)}
    said = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": partition, **times, **more}
    return entry(tier, "broker-1", seq, at(60), scrubbed=[said])


def checks(directory: Path, entries: Sequence[Json]) -> LogChecks:
    with AuditedLedger(directory, clock=at(120)) as ledger:
        return ledger.fold_each(entries).reading.checks(KEY)


def test_a_topic_was_checked_when_the_last_of_its_logs_was(tmp_path: Path) -> None:
    entries = [COUNTED, scrubbed(1, 0, 5, 2), scrubbed(2, 1, 6, 0), scrubbed(3, 0, 7, 2)]
    wanted = LogChecks(
        recent=at(6),
        whole=-1,
        logs=[CheckedLog(1, at(6), -1), CheckedLog(0, at(7), at(2))],
        logs_total=2,
    )
    for number, order in enumerate(permutations(entries)):
        assert checks(tmp_path / str(number), order) == wanted


def test_a_log_that_was_never_read_again(tmp_path: Path) -> None:
    found = checks(tmp_path, [COUNTED, scrubbed(1, 0, 5, 5)])
    assert (found.recent, found.whole) == (-1, -1)
    assert found.logs == [CheckedLog(1, -1, -1), CheckedLog(0, at(5), at(5))]


@pytest.mark.parametrize(
    "said",
    [
        scrubbed(1, 0, 5, 5, tier="agent"),
        scrubbed(1, 0, 5, 5, topic_id="BBBBBBBBBBBBBBBBBBBBBB"),
        scrubbed(1, -1, 5, 5),
        scrubbed(1, 1 << 30, 5, 5),
    ],
)
def test_what_is_not_said_of_a_log_of_this_topic(tmp_path: Path, said: Json) -> None:
    assert checks(tmp_path, [COUNTED, said]) == checks(tmp_path / "without", [COUNTED])


def test_nothing_was_read_later_than_it_was_said(tmp_path: Path) -> None:
    found = checks(tmp_path, [COUNTED, scrubbed(1, 0, 90, 90)])
    assert CheckedLog(0, at(60), at(60)) in found.logs


def test_old_times_are_forgotten(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path, clock=at(120)) as ledger:
        ledger.fold_each([COUNTED, scrubbed(1, 0, 5, 5)])
        kept = ledger.store.retention_millis
        ledger.store.expire(at(60) + kept)
        assert CheckedLog(0, at(5), at(5)) in ledger.reading.checks(KEY).logs
        ledger.store.expire(at(60) + kept + HOUR)
        assert ledger.reading.checks(KEY).logs == []
