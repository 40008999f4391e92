"""What a loader is told about an hour."""

from msgspec import structs
from msgspec.structs import replace

from audit.reconciling.gate import Gate, hour_gate
from audit.reconciling.picture import Acceptance, OffsetSpan, Rebuilt, WindowSums
from audit.reconciling.verdict import reconcile
from tests.audit.reconciling.pictures import (
    AGENT,
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


def test_complete_whatever_lies_in_files() -> None:
    spoilt = windows(window(12, hdfs=WindowSums()))
    gate = hour_gate(picture(windows=spoilt, partitions=[claimed(hdfs=())]))
    assert gate == Gate(complete=True, by="agents and brokers")
    assert hour_gate(picture(tiers=(AGENT, HDFS))).by == "agents"


def test_files_of_a_rebuilt_hour() -> None:
    lacking = {
        "windows": windows(window(12, hdfs=WindowSums())),
        "rebuilt": [Rebuilt(HDFS, START, START + HOUR)],
    }
    at = START + HOUR
    gate = hour_gate(picture(**lacking), HDFS.destination, at)
    assert gate.missing.startswith("a fault to be corrected or accepted: 2025-11-12 09:12:00")
    assert "10 events not in hdfs:/data: the hour was rebuilt" in gate.missing
    for destination, rebuilt in (("hdfs:/other", at), (HDFS.destination, START + 2 * HOUR)):
        gate = hour_gate(picture(**lacking), destination, rebuilt)
        missing = "the ledger, whose entries may still arrive"
        assert gate == Gate(complete=False, missing=missing, soon=True)
    hour = Acceptance(-1, (), {}, {}, "", START, START + HOUR, "known", "ada", at)
    gate = hour_gate(picture(**lacking, accepted=[hour]), HDFS.destination, at)
    by = "agents, brokers and files, except for 10 missing, unidentified events (accepted)"
    assert gate == Gate(complete=True, by=by)


def test_agents_that_are_behind() -> None:
    late = [agent(f"web-{each}", until=START + MINUTE) for each in range(5)]
    gate = hour_gate(picture(agents=late))
    assert gate.missing == "agents on web-0, web-1, web-2 and 2 more"
    assert gate.names == tuple(f"web-{each}" for each in range(5))


def test_brokers_that_are_behind() -> None:
    spoilt = picture(
        windows=windows(window(59, broker=WindowSums(), hdfs=WindowSums())),
        partitions=[claimed(broker=((0, 590),), hdfs=((0, 590),))],
        open=[OffsetSpan(AGENT, 0, 590, 600, START + 59 * MINUTE, START + HOUR, 10)],
    )
    assert hour_gate(spoilt).missing == "the brokers, which have not counted all of it"


def test_brokers_that_are_behind_where_sums_say_nothing() -> None:
    """And the windows that they are not behind with are as they were."""
    unsure = structs.replace(window(59), uncounted=frozenset({BROKER}))
    spoilt = picture(
        windows=windows(unsure),
        partitions=[claimed(broker=((0, 590),), hdfs=((0, 590),))],
        open=[OffsetSpan(AGENT, 0, 590, 600, START, START + HOUR, 10)],
    )
    assert hour_gate(spoilt).missing == "the brokers, which have not counted all of it"
    waiting = [each.start for each in reconcile(spoilt).windows if each.waits]
    assert waiting == [unsure.start]


def test_what_is_missing_at_brokers() -> None:
    gate = hour_gate(picture(windows=windows(window(1, broker=WindowSums(9, 90, 6)))))
    assert not gate.complete
    assert gate.missing.startswith("a fault to be corrected or accepted: 2025-11-12 09:01:00")


def test_an_hour_that_is_not_over() -> None:
    assert hour_gate(picture(now=START + MINUTE)).missing == "the end of the hour"


def test_a_topic_without_agents() -> None:
    gate = hour_gate(replace(picture(), tiers=(BROKER, HDFS), agents=[]))
    assert gate == Gate(complete=False, missing="agents: none ships to clicks")
