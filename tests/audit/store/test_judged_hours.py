"""A verdict, hour by hour."""

import pytest
from msgspec.structs import replace

from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import FaultKind, Finding, KindCount, State
from audit.reconciling.picture import Tier, TierKind, TopicKey, WindowSums
from audit.reconciling.topic_verdict import TopicVerdict, Wait, WindowVerdict
from audit.store.judged_hours import HOUR, by_hour, figures_of

KEY = TopicKey("east", "clicks", "id")
TIERS = [Tier(TierKind.AGENT), Tier(TierKind.BROKER)]


def window(
    start: int,
    state: State = State.COMPLETE,
    *,
    events: tuple[int, int] = (5, 5),
    missing: int = 0,
    accepted: bool = False,
    waits: tuple[str, ...] = (),
) -> WindowVerdict:
    return WindowVerdict(
        start=start,
        length=60_000,
        state=state,
        sums=[WindowSums(events=each) for each in events],
        missing=missing,
        accepted=accepted,
        waits=list(waits),
    )


def verdict(windows: list[WindowVerdict], findings: list[Finding] | None = None) -> TopicVerdict:
    return TopicVerdict(
        key=KEY,
        from_time=0,
        to_time=3 * HOUR,
        tiers=TIERS,
        state=State.COMPLETE,
        windows=windows,
        findings=findings or [],
        waits=[
            Wait(on="agent", words="web-3 has said nothing"),
            Wait(on="hdfs", words="a load is to come"),
        ],
    )


def finding(kind: FaultKind, from_time: int, to_time: int, accepted: str = "") -> Finding:
    return Finding(
        kind=kind,
        words=f"{kind} here",
        events=2,
        from_time=from_time,
        to_time=to_time,
        accepted=accepted,
    )


def test_each_hour_has_its_own() -> None:
    missing = window(HOUR, State.MISSING, events=(5, 3), missing=2)
    waiting = window(2 * HOUR + 60_000, State.PENDING, waits=("agent",))
    found = by_hour(
        verdict([window(0), missing, waiting], [finding(FaultKind.MISSING, HOUR, HOUR + 60_000)]),
        [0, HOUR, 2 * HOUR],
    )
    complete, faulty, pending = found
    assert (complete.is_open, complete.faults, complete.judged.events) == (False, {}, 5)
    assert faulty.faults == {State.MISSING: "missing here"}
    assert (faulty.judged.missing, faulty.judged.findings, faulty.judged.waits) == (2, 1, "")
    assert faulty.events == {TIERS[0]: 5, TIERS[1]: 3}
    assert pending.judged.waits == "web-3 has said nothing"
    assert pending.pending_since == 2 * HOUR + 120_000


_ACCEPTED = finding(FaultKind.LOST, 0, 1, "known")
_MORE = finding(FaultKind.DUPLICATED, 0, HOUR)  # a file in an hour of which there is nothing else
_BLIND = finding(FaultKind.UNKNOWN, 0, 1)


@pytest.mark.parametrize(
    ("windows", "findings", "state", "faults"),
    [
        ([], [], State.COMPLETE, {}),
        ([window(0, missing=2, accepted=True)], [_ACCEPTED], State.COMPLETE, {}),
        ([], [_MORE], State.DUPLICATED, {State.DUPLICATED: "duplicated here"}),
        ([window(0, State.CHANGED)], [], State.CHANGED, {State.CHANGED: "the tiers do not agree"}),
        ([window(0, State.UNKNOWN)], [_BLIND], State.UNKNOWN, {State.UNKNOWN: "unknown here"}),
        ([window(0, State.UNKNOWN)], [], State.UNKNOWN, {State.UNKNOWN: "no agent was watching"}),
    ],
)
def test_what_is_said_of_one_hour(
    windows: list[WindowVerdict], findings: list[Finding], state: State, faults: dict[State, str]
) -> None:
    (found,) = by_hour(verdict(windows, findings), [0])
    assert (found.judged.state, found.is_open, found.faults) == (state, bool(faults), faults)
    assert found.judged.findings == len([each for each in findings if not each.accepted])


def test_what_persons_accepted_is_counted_in_its_hours() -> None:
    """Also in those without a window; what is harmless is not counted."""
    blind = finding(FaultKind.UNKNOWN, HOUR - 1, HOUR + 1, "known")
    lost = finding(FaultKind.LOST, 2 * HOUR, 2 * HOUR + 1, "known")
    moment = replace(lost, accepted="", harmless="for a moment only")
    found = by_hour(verdict([window(0)], [blind, lost, moment]), [0, HOUR, 2 * HOUR])
    assert [each.judged.accepted for each in found] == [
        (KindCount(kind=FaultKind.UNKNOWN, findings=1, uncounted=1),),
        (KindCount(kind=FaultKind.UNKNOWN),),
        (KindCount(kind=FaultKind.LOST, findings=1, events=2),),
    ]
    assert {(each.judged.state, each.judged.kinds) for each in found} == {(State.COMPLETE, ())}


def test_a_fault_over_several_hours_is_in_those_with_faulty_windows() -> None:
    windows = [window(HOUR - 60_000), window(HOUR, State.MISSING), window(2 * HOUR, State.MISSING)]
    finding_of_two = finding(FaultKind.UNPROVEN, HOUR - 1, HOUR + 1)
    found = by_hour(verdict(windows, [finding_of_two]), [0, HOUR, 2 * HOUR])
    assert [each.judged.findings for each in found] == [0, 1, 0]
    assert [each.judged.state for each in found] == ["complete", "missing", "missing"]


def test_a_fault_without_a_faulty_window_is_where_it_begins() -> None:
    """An entry that is missing of a time in which nothing happened."""
    hole = finding(FaultKind.UNPROVEN, HOUR + 1, 3 * HOUR - 1)
    first, second, third = by_hour(
        verdict([window(0), window(2 * HOUR)], [hole]), [0, HOUR, 2 * HOUR]
    )
    assert (first.faults, third.faults) == ({}, {})
    assert (second.judged.state, second.judged.findings) == ("missing", 1)
    assert second.faults == {State.MISSING: "unproven here"}


def test_a_time_that_nobody_watched_is_unknown_in_all_of_its_hours() -> None:
    """With events or without; and as a number it counts once."""
    blind = replace(finding(FaultKind.UNKNOWN, HOUR - 1, 2 * HOUR + 1), events=-1)
    found = by_hour(verdict([window(0)], [blind]), [0, HOUR, 2 * HOUR])
    assert [each.judged.state for each in found] == ["unknown"] * 3
    assert [each.judged.findings for each in found] == [1, 1, 1]
    assert all(each.is_open and each.faults == {State.UNKNOWN: "unknown here"} for each in found)


def test_what_two_hours_lack_together_counts_once() -> None:
    windows = [window(HOUR, State.MISSING), window(2 * HOUR, State.MISSING)]
    both = finding(FaultKind.MISSING, HOUR, 2 * HOUR + 60_000)
    found = by_hour(verdict(windows, [both]), [0, HOUR, 2 * HOUR])
    assert [each.judged.missing for each in found] == [0, 2, 0]
    assert [each.judged.findings for each in found] == [0, 1, 1]


def test_each_kind_of_an_hour_is_counted_by_itself() -> None:
    """What began before is known of the hour, and counted where it began."""
    windows = [window(0, State.UNKNOWN), window(HOUR, State.CHANGED)]
    blind = finding(FaultKind.UNKNOWN, HOUR - 1, HOUR + 1)
    cut, gone = (
        finding(FaultKind.CHANGED, HOUR, HOUR + 1),
        finding(FaultKind.MISSING, HOUR, HOUR + 1),
    )
    _, found = by_hour(verdict(windows, [blind, cut, gone, gone]), [0, HOUR])
    assert found.judged.state == State.CHANGED
    assert found.judged.kinds == (
        KindCount(kind=FaultKind.CHANGED, findings=1, events=2),
        KindCount(kind=FaultKind.MISSING, findings=2, events=4),
        KindCount(kind=FaultKind.UNKNOWN),
    )


def test_a_fault_is_told_by_its_findings_in_sum_and_the_first_of_them() -> None:
    found = [
        replace(finding(kind, 0, 60_000), id=f"{kind}-{number}")
        for kind, count in ((FaultKind.LOST, 1), (FaultKind.CHANGED, 1), (FaultKind.MISSING, 2))
        for number in range(count)
    ]
    (said,) = by_hour(verdict([window(0, State.CHANGED)], found), [0])
    assert said.faults == {
        State.MISSING: "3 findings: in all, 2 lines were gone before they were read; 4 events have"
        " not arrived; the first: lost here",
        State.CHANGED: "changed here",
    }
    assert {each.id for each in said.worst.values()} == {"lost-0", "changed-0"}
    assert said.worst[State.MISSING].command.startswith("penstock audit accept ")


def test_figures_add_hours_up() -> None:
    windows = [window(0, State.MISSING, missing=2), window(HOUR), window(2 * HOUR, State.PENDING)]
    lacking = finding(FaultKind.UNNAMED, 0, 60_000)
    hours = by_hour(verdict(windows, [lacking]), [0, HOUR, 2 * HOUR])
    (figures,) = figures_of(hours, since=HOUR, is_deleted=lambda key: False)
    assert figures.events == {TIERS[0]: 10, TIERS[1]: 10}
    assert (figures.missing, figures.pending_windows) == (2, 1)
    assert figures.pending_since == 2 * HOUR + 60_000
    assert figures.severity == State.MISSING.severity
    assert figures.kinds == (KindCount(kind=FaultKind.UNNAMED, findings=1, events=2),)


def test_dead_letters_count_once() -> None:
    """An event in several roots, and a line of a copy's origin."""
    dead = replace(window(0), dead=301, sums=[WindowSums(dead=count) for count in (0, 300, 299)])
    for origin, lines in ((None, 1), (KEY, 0)):
        (hour,) = by_hour(replace(verdict([dead]), origin=origin), [0])
        assert hour.judged.dead == DeadLetters(lines=lines, events=300)


def test_figures_of_a_topic_that_was_deleted_wait_for_nobody() -> None:
    hours = by_hour(verdict([window(0), window(HOUR, State.PENDING)]), [0, HOUR])
    (figures,) = figures_of(hours, since=0, is_deleted=lambda key: key == KEY)
    assert (figures.pending_windows, figures.pending_since, figures.severity) == (0, -1, 0)
    assert figures.events == {TIERS[0]: 10, TIERS[1]: 10}


def test_rows_of_doubled_and_lost_files_count() -> None:
    """As sums of windows have what was committed, and not what lies there."""
    doubled = Finding(
        kind=FaultKind.DUPLICATED,
        words="a file more",
        path="/x",
        events=6,
        from_time=0,
        to_time=HOUR,
    )
    lost = replace(doubled, kind=FaultKind.MISSING, path="/y", events=4)
    known = replace(doubled, path="/z", accepted="a copy")
    unknown = replace(doubled, path="/u", events=-1)
    (found,) = by_hour(verdict([window(0)], [doubled, lost, known, unknown]), [0])
    assert (found.judged.missing, found.judged.excess) == (4, 6)


def test_what_is_waited_for_is_never_cut_within_its_words() -> None:
    waits = [
        Wait(on="agent", words=f"web-{number}: the agent is done up to 2026-11-20 07:12:00")
        for number in range(9)
    ]
    waiting = replace(verdict([window(0, State.PENDING, waits=("agent",))]), waits=waits)
    (found,) = by_hour(waiting, [0])
    *said, more = found.judged.waits.split("; ")
    assert said == [each.words for each in waits[: len(said)]]
    assert more == f"and {9 - len(said)} more"
    assert len(said) > 3
