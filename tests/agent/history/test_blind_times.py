"""What can be told of a time in which nobody watched."""

import pytest
from msgspec.structs import replace

from agent.accounting.runs import SourceId
from agent.history.blind_times import (
    Blind,
    Looked,
    MaybeEmptied,
    Period,
    Stamp,
    Traces,
    Unwatched,
    blind_since,
    is_sure,
    may_hide,
    may_hide_since_copied,
    statements,
    united,
)
from agent.history.clock_setting import ClockSetting

SURE = Stamp(1, 2, 3, 4, is_sure=True)
BLIND = Blind("t", [Period(10, 20)], "nobody looked")


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
        BLIND, {"/a": before} if before else {}, {"/a": now} if now else {}, unreadable=[], names={}
    )
    assert (said.path, said.traces) == ("/a", traces)
    assert (said.from_millis, said.to_millis) == (10, 20)


def test_a_folder_that_cannot_be_read() -> None:
    (said,) = statements(BLIND, {"/a": SURE}, {"/a": SURE}, unreadable=["/a"], names={})
    assert said.traces is Traces.OTHER


@pytest.mark.parametrize(
    ("boots", "booted", "shown", "reason"),
    [
        ("aa", 0, [(100_000, 130_001)], "x"),
        ("aa", 900, [(100_000, 130_901)], "x"),  # little: one time, which covers both
        ("aa", -900, [(99_100, 130_001)], "x"),
        (
            *("aa", 2_400_000),
            [(100_000, 130_001), (2_500_000, 2_530_001)],
            "x; the clock was set ahead by 2,400 s",
        ),
        (
            *("aa", -90_000),
            [(100_000, 130_001), (10_000, 40_001)],
            "x; the clock was set back by 90 s",
        ),
        ("ab", 0, [(100_000, 130_001)], "x"),
        ("ab", 2_400_000, [(100_000, 2_530_001)], "x"),
        ("ab", -90_000, [(10_000, 130_001)], "x; the clock was set back"),  # all it may have shown
        (" a", -90_000, [(10_000, 130_001)], "x; the clock was set back"),  # journal without boot
        ("  ", 2_400_000, [(100_000, 2_530_001)], "x"),
    ],
)
def test_an_unwatched_time_is_as_long_as_it_was(
    boots: str, booted: int, shown: list[tuple[int, int]], reason: str
) -> None:
    """30 s. The clock is set meanwhile, in the same boot or with another one."""
    before, now = (
        ClockSetting(boot.strip(), at) for boot, at in zip(boots, (0, booted), strict=True)
    )
    looked = Looked(100_000, booted_millis=1_000, clock=before)
    times = {"now_millis": 130_000 + booted, "booted_millis": 31_000}
    periods = tuple(Period(*each) for each in shown)
    assert blind_since("t", looked, **times, clock=now, reason="x") == Blind("t", periods, reason)


def test_a_pause_between_two_clocks_does_not_set_one() -> None:
    setting = ClockSetting("a", 100)
    assert setting.read(5_000, (5_090, 9_000)) == setting
    assert setting.read(5_000, (5_150, 9_000)).booted_millis == 150
    assert setting.read(5_000, (4_000, 4_001)).booted_millis == -999


@pytest.mark.parametrize(
    ("written_ms", "away_ms", "traces"),
    [
        (0, 4_900, Traces.UNCHANGED),  # its times are those of its making
        (-10_000, 4_900, Traces.UNCHANGED),  # it is older
        (1, 4_900, Traces.BRIEF),
        (4_900, 4_900, Traces.BRIEF),
        (0, 5_001, Traces.UNCHANGED),
        (1, 5_001, Traces.CHANGED),
        (6_000, 5_000, Traces.CHANGED),  # by the clocks of a file system and of a machine
        (1, -1, Traces.CHANGED),  # the clock was set back: nobody knows for how long
    ],
)
def test_what_may_have_been_emptied(written_ms: int, away_ms: int, traces: Traces) -> None:
    written_ns, away_ns = written_ms * 1_000_000, away_ms * 1_000_000
    assert may_hide(written_ns, away_ns, is_told=False) is traces
    assert may_hide_since_copied(written_ns + 20_000_000, away_ns, is_told=False) is traces
    told = Traces.UNCHANGED if traces is Traces.UNCHANGED else Traces.BRIEF
    assert may_hide(written_ns, away_ns, is_told=True) is told, "with the history of names"
    assert may_hide_since_copied(written_ns + 20_000_000, away_ns, is_told=True) is told


@pytest.mark.parametrize(
    ("emptied", "traces", "name"),
    [
        (MaybeEmptied(["a"], ["b"]), Traces.CHANGED, "a"),
        (MaybeEmptied((), ["b"]), Traces.BRIEF, "b"),
    ],
)
def test_files_that_may_have_been_emptied(emptied: MaybeEmptied, traces: Traces, name: str) -> None:
    (said,) = statements(
        *(BLIND, {"/a": SURE}, {"/a": SURE}), unreadable=[], names={}, written={"/a": emptied}
    )
    assert said.traces is traces
    assert said.reason.endswith(f"may have been emptied: {name}")


def test_moments_that_are_united_stay_moments() -> None:
    brief = Unwatched("t", "/a/b", SourceId(""), -1, 10, 20, Traces.BRIEF, "x")
    both = united(brief, replace(brief, path="/a/c", from_millis=30, to_millis=40))
    assert (both.path, both.from_millis, both.to_millis) == ("/a", 10, 40)
    assert both.traces is Traces.BRIEF
    assert united(brief, replace(brief, traces=Traces.CHANGED)).traces is Traces.CHANGED


def test_traces_of_a_later_release() -> None:
    assert Traces("not thought of yet") is Traces.OTHER
