"""Windows taken together, and delays."""

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.http.endpoints.totals import added, cells, percentile, tier_totals
from audit.reconciling.findings import FaultKind, Finding, State, worst
from audit.reconciling.picture import Tier, TierKind, TopicKey, WindowSums
from audit.reconciling.topic_verdict import TopicVerdict, WindowVerdict

MINUTE = 60_000
NUMBERS = st.integers(0, 1_000)
SUMS = st.builds(WindowSums, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
COUNTS = [
    each.name
    for each in msgspec.structs.fields(WindowVerdict)
    if each.type is int and each.name not in {"start", "length", "lost"}
]


def verdict(tiers: list[Tier], windows: list[WindowVerdict], **more: object) -> TopicVerdict:
    whole = TopicVerdict(
        key=TopicKey("east", "clicks", "id"),
        from_time=0,
        to_time=60 * MINUTE,
        tiers=tiers,
        state=State.COMPLETE,
        windows=windows,
        findings=[],
        waits=[],
    )
    return replace(whole, **more)


def window(*events: int) -> WindowVerdict:
    sums = [WindowSums(events=each) for each in events]
    return WindowVerdict(start=0, length=MINUTE, state=State.COMPLETE, sums=sums)


@st.composite
def verdicts(draw: st.DrawFn) -> list[WindowVerdict]:
    starts = draw(st.sets(st.integers(0, 500), max_size=12))
    return [
        WindowVerdict(
            start=start * MINUTE,
            length=MINUTE,
            state=draw(st.sampled_from(State)),
            sums=[draw(SUMS), draw(SUMS)],
            missing=draw(NUMBERS),
            pending=draw(NUMBERS),
            excess=draw(NUMBERS),
            unclaimed=draw(NUMBERS),
            unclaimed_yet=draw(NUMBERS),
            elsewhere=draw(st.integers(-1_000, 1_000)),
            late=draw(NUMBERS),
            duplicates=draw(NUMBERS),
            dead=draw(NUMBERS),
            filtered=draw(NUMBERS),
            lost=draw(st.integers(-1, 5)),
            waits=draw(st.lists(st.sampled_from(["agent", "hdfs"]), unique=True)),
        )
        for start in sorted(starts)
    ]


@given(verdicts(), st.integers(1, 60))
def test_cells_have_all_that_windows_have(windows: list[WindowVerdict], minutes: int) -> None:
    step = minutes * MINUTE
    found = cells(windows, step)
    assert [each.start for each in found] == sorted({e.start // step * step for e in windows})
    assert added(each.sums[1] for each in found) == added(each.sums[1] for each in windows)
    for name in COUNTS:
        assert sum(getattr(e, name) for e in found) == sum(getattr(e, name) for e in windows), name
    assert worst([e.state for e in found]) == worst([e.state for e in windows])
    assert any(e.lost < 0 for e in found) == any(e.lost < 0 for e in windows)
    assert {w for e in found for w in e.waits} == {w for e in windows for w in e.waits}


def test_files_have_the_rows_that_are_there() -> None:
    """As `missing` and `excess` have the others: one is the other and these, exactly."""
    files = Tier(TierKind.HDFS, "hdfs://logs")
    gone = Finding(
        kind=FaultKind.MISSING,
        words="",
        tier="hdfs",
        destination="hdfs://logs",
        path="part-1",
        events=200,
        from_time=0,
        to_time=60 * MINUTE,
    )
    known = replace(gone, path="part-2", accepted="deleted on purpose", events=30)
    twice = replace(gone, path="copy", kind=FaultKind.DUPLICATED, events=5)
    others = [
        replace(gone, destination="hdfs://others"),
        replace(gone, path="/log/a", source="a1-7"),  # events of a log file, which never landed
        replace(gone, path="part-3", events=-1),
    ]
    judged = verdict([Tier(TierKind.BROKER), files], [window(679, 679)])

    def rows(*findings: Finding) -> list[int]:
        with_findings = replace(judged, findings=list(findings))
        return [each.events for each in tier_totals(with_findings, {})]

    assert rows(gone, *others) == [679, 479]
    assert rows(gone, known, twice) == [679, 454]
    assert rows(replace(gone, events=1_000)) == [679, 0], "of a part of the hour"


@given(verdicts())
def test_cells_as_long_as_windows_are_windows(windows: list[WindowVerdict]) -> None:
    hour = replace(window(0), length=60 * MINUTE)  # it keeps its length
    assert (cells(windows, MINUTE), cells([hour], MINUTE)) == (windows, [hour])


def test_what_a_copy_has_was_copied() -> None:
    """Though the mirror was killed before it had said so."""
    tiers = [Tier(TierKind.MIRROR), Tier(TierKind.BROKER)]
    behind, level = window(12_602, 16_201), window(16_201, 16_201)

    def at_least(*windows: WindowVerdict, **more: object) -> list[bool]:
        judged = verdict(tiers, list(windows), **more)
        return [each.at_least for each in tier_totals(judged, {})]

    assert at_least(behind) == [True, False]
    assert at_least(level) == [False, False]
    assert at_least(level, uncounted=frozenset({tiers[1]})) == [False, True]


def test_how_late_brokers_are_counted_is_no_delay() -> None:
    tiers = [Tier(TierKind.AGENT), Tier(TierKind.BROKER)]
    agent, broker = tier_totals(verdict(tiers, []), dict.fromkeys(tiers, (0, 0, 5)))
    assert (agent.p50, agent.max) == (3, 4)
    assert (broker.p50, broker.p95, broker.p99, broker.max) == (-1, -1, -1, -1)
    assert percentile((), 0.5) == percentile((0, 0), 0.5) == -1


@given(st.lists(st.integers(0, 2**20), min_size=1), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_delays_are_known_to_a_doubling(delays: list[int], share: float) -> None:
    """What is said is between the bounds of the exact one; of all it is above each."""
    counts = [0] * 22
    for each in delays:
        counts[each.bit_length()] += 1
    exact = sorted(delays)[max(0, math.ceil(len(delays) * share) - 1)].bit_length()
    told = percentile(counts, share)
    assert (1 << exact) >> 1 <= told <= 1 << exact
    assert share < 1 or max(delays) < told


def test_they_can_be_sent() -> None:
    (cell,) = cells([WindowVerdict(start=0, length=MINUTE, state=State.COMPLETE, sums=[])], MINUTE)
    assert msgspec.json.decode(msgspec.json.encode(cell), type=WindowVerdict) == cell
