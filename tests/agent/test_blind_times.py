"""What can be told of a time in which nobody watched."""

import pytest

from agent.blind_times import (
    Blind,
    Looked,
    Stamp,
    Traces,
    blind_since,
    gaps,
    is_sure,
    statements,
    was_brief,
    was_brief_since_copied,
)

SURE = Stamp(1, 2, 3, 4, is_sure=True)
BLIND = Blind("t", 10, 20, "nobody looked")


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["app.log", "app.log.1", "app.log.2"], []),
        (["app.log.1", "app.log.4.gz"], ["app.log.2", "app.log.3"]),
        (["app-20261119.log", "app-20261121.log.gz"], ["app-20261120.log"]),
        (["app.log-2026-02-27", "app.log-2026-03-01"], ["app.log-2026-02-28"]),
        (["app.1.log", "app.9999.log"], []),  # no rotation
        (["app.log-20269999"], []),
    ],
)
def test_what_is_missing_in_a_rotation(names: list[str], missing: list[str]) -> None:
    assert gaps(names) == missing


def test_a_look_is_sure_once_the_clock_of_the_file_system_has_moved_on() -> None:
    assert not is_sure(1_000_000_001, 0, 1_000_000_001)
    assert not is_sure(5_000_000_001, 0, 1_000_000_001)  # the clock was set back
    assert is_sure(1_000_000_001, 0, 1_030_000_001)
    assert not is_sure(2_000_000_000, 1_000_000_000, 3_000_000_000)  # full seconds only
    assert is_sure(2_000_000_000, 1_000_000_000, 5_000_000_000)


@pytest.mark.parametrize(
    ("before", "now", "traces"),
    [
        (SURE, SURE, Traces.UNCHANGED),
        (SURE, SURE._replace(is_sure=False), Traces.UNCHANGED),
        (SURE._replace(is_sure=False), SURE, Traces.CHANGED),
        (SURE, SURE._replace(mtime_ns=5), Traces.CHANGED),
        (SURE, SURE._replace(ctime_ns=5), Traces.CHANGED),
        (SURE, SURE._replace(inode=5), Traces.CHANGED),
        (None, SURE, Traces.CHANGED),
        (SURE, None, Traces.CHANGED),
    ],
)
def test_a_folder_before_and_after(before: Stamp | None, now: Stamp | None, traces: Traces) -> None:
    (said,) = statements(
        BLIND,
        {"/a": before} if before else {},
        {"/a": now} if now else {},
        unreadable=[],
        names={},
    )
    assert (said.path, said.traces) == ("/a", traces)
    assert (said.from_millis, said.to_millis) == (10, 20)


def test_a_folder_that_cannot_be_read() -> None:
    (said,) = statements(BLIND, {"/a": SURE}, {"/a": SURE}, unreadable=["/a"], names={})
    assert said.traces is Traces.OTHER


def test_a_clock_that_was_set_back() -> None:
    """All times that it may have shown."""
    looked = Looked(millis=100_000, booted_millis=1_000)
    blind = blind_since("t", looked, now_millis=40_000, booted_millis=31_000, reason="x")
    assert (blind.from_millis, blind.to_millis) == (10_000, 130_001)


@pytest.mark.parametrize(
    ("written_ms", "away_ms", "is_brief"),
    [
        (4_900, 4_900, True),
        (0, 5_001, True),
        (1, 5_001, False),
        (6_000, 5_000, False),  # by the clocks of a file system and of a machine
        (1, -1, False),  # the clock was set back: nobody knows for how long
    ],
)
def test_what_is_too_brief_to_have_been_emptied(
    written_ms: int, away_ms: int, is_brief: bool
) -> None:
    assert was_brief(written_ms * 1_000_000, away_ms * 1_000_000) is is_brief
    assert was_brief_since_copied((written_ms + 20) * 1_000_000, away_ms * 1_000_000) is is_brief
