"""What an audit states in the certificate of an hour, and when it states nothing."""

from typing import Any

import pytest

from audit.reconciling.certified_hours import Uncertified, certified_hour
from audit.reconciling.picture import Acceptance, OffsetSpan, Rebuilt, WindowSums
from ledger.hour_certificates import Acceptance as CertifiedAcceptance
from tests.audit.reconciling.pictures import (
    BROKER,
    HDFS,
    HOUR,
    MINUTE,
    START,
    agent,
    claimed,
    picture,
    window,
    windows,
)

ROOT = HDFS.destination


def _refusal(rows: int = 600, at: int = 0, **changes: Any) -> Uncertified:
    with pytest.raises(Uncertified) as refusal:
        certified_hour(picture(**changes), ROOT, rows=rows, rebuilt=at)
    return refusal.value


def test_the_counts_of_all_tiers() -> None:
    hour = certified_hour(picture(), ROOT, rows=600, altered=3)
    assert hour.counts == {"agent": 600, "broker": 600, "hdfs": 600}
    assert (hour.exceptions.altered, hour.exceptions.accepted) == (3, ())


def test_rows_must_be_as_many_as_the_ledger_has() -> None:
    """More of them may have been loaded just now."""
    more, fewer = _refusal(601), _refusal(599)
    assert str(more) == "the loader has 601 rows, and has reported 600 in the ledger"
    assert (more.soon, fewer.soon) == (True, False)


def test_an_hour_that_is_not_complete() -> None:
    behind = _refusal(agents=[agent("web-1", until=START + MINUTE)])
    assert (str(behind), behind.soon) == ("agents on web-1", False)
    assert str(_refusal(now=START + MINUTE)) == "the end of the hour"
    assert str(_refusal(unjoined="two of them")) == "the origin of this copy: two of them"


def test_files_that_are_behind() -> None:
    loading = _refusal(
        windows=windows(window(59, hdfs=WindowSums())),
        partitions=[claimed(hdfs=((0, 590),))],
        open=[OffsetSpan(BROKER, 0, 590, 600, START + 59 * MINUTE, START + HOUR, 10)],
    )
    assert str(loading) == "the load, which has not reported all of it"
    assert loading.soon
    with pytest.raises(Uncertified, match="may still arrive") as refusal:
        certified_hour(picture(), "hdfs:/other", rows=600)
    assert refusal.value.soon


def test_what_was_accepted_by_whom_and_why() -> None:
    at = START + HOUR
    lacking = {
        "windows": windows(window(12, hdfs=WindowSums())),
        "rebuilt": [Rebuilt(HDFS, START, START + HOUR)],
    }
    assert "a fault to be corrected or accepted" in str(_refusal(590, at, **lacking))
    accepted = Acceptance(-1, (), {}, {}, "", START, START + HOUR, "disk broke", "ada", at)
    hour = certified_hour(picture(**lacking, accepted=[accepted]), ROOT, rows=590, rebuilt=at)
    assert hour.counts["hdfs"] == 590
    (exception,) = hour.exceptions.accepted
    assert exception == CertifiedAcceptance(
        kind="unnamed", count=10, operator="ada", reason="disk broke"
    )
