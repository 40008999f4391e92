"""What names a finding, and how kinds are counted."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.reconciling.findings import FaultKind, Finding, KindCount, counted, identified, summed
from audit.reconciling.picture import FileFault, LostBytes, TopicKey, UnwatchedTime
from audit.reconciling.verdict import reconcile
from tests.audit.reconciling.pictures import HDFS, HOUR, MINUTE, START, picture, source, stretch

KEY = TopicKey("dc1", "clicks", "eNqrVkosLslMVrJSUA")
MISSING = Finding(
    kind=FaultKind.MISSING,
    words="",
    tier="broker",
    host="web-3",
    path="/var/log/shop/a.log",
    source="a1-7",
    seq=120,
    events=12,
    position=8_192,
    end_position=9_216,
    partition=0,
    offset=4_711,
    offsets=12,
    from_time=START,
    to_time=START + MINUTE,
)
FOLDER = Finding(
    kind=FaultKind.UNKNOWN,
    words="",
    tier="agent",
    host="web-3",
    path="/var/log/shop",
    from_time=START,
    to_time=START + MINUTE,
)


def name(finding: Finding, key: TopicKey = KEY) -> str:
    return identified(finding, key).id


def test_ids_are_the_same_in_every_release() -> None:
    """Others have written them down."""
    assert (name(MISSING), name(FOLDER)) == ("6fd7477d7ed99745", "9411cbc807103ea3")


@pytest.mark.parametrize(
    "grown",
    [
        {"events": 300, "offsets": 300, "end_position": 99_999, "to_time": START + HOUR},
        {"from_time": START - MINUTE},  # somebody has said more exactly when
        {"host": "", "path": "", "agent": "a1"},
        {"words": "in other words", "reason": "why", "accepted": "known", "unseen_end": True},
    ],
)
def test_what_grows_or_is_looked_up_later_changes_no_id(grown: dict[str, object]) -> None:
    assert name(replace(MISSING, **grown)) == name(MISSING)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MISSING, replace(MISSING, kind=FaultKind.UNPROVEN)),
        (MISSING, replace(MISSING, tier="hdfs")),
        (MISSING, replace(MISSING, source="a1-8")),
        (MISSING, replace(MISSING, seq=132)),
        (MISSING, replace(MISSING, source="", seq=-1, position=-1)),
        (FOLDER, replace(FOLDER, host="web-4")),
        (FOLDER, replace(FOLDER, path="/var/log/other")),
        (replace(FOLDER, path="/\udcff"), replace(FOLDER, path="/\udcfe")),  # names are bytes
        (FOLDER, replace(FOLDER, from_time=START + HOUR)),
    ],
)
def test_another_place_is_another_finding(one: Finding, other: Finding) -> None:
    assert name(one) != name(other)


def test_a_topic_that_was_made_again_has_other_findings() -> None:
    assert name(MISSING) != name(MISSING, KEY._replace(topic_id="another"))
    assert name(MISSING) == name(MISSING, KEY._replace(topic="renamed"))
    assert name(MISSING, KEY._replace(topic_id="")) != name(
        MISSING, KEY._replace(topic_id="", topic="b")
    )


@given(order=st.permutations(range(3)))
def test_ids_do_not_depend_on_the_order_of_rows(order: Sequence[int]) -> None:
    file_faults = [FileFault(HDFS, f"part-{n}", START, "missing", 100, -1) for n in range(3)]
    lost = [LostBytes("s1", 5 + n, n * 100, n * 100 + 50, 3, 50, "gone", START) for n in range(3)]
    unwatched = [
        UnwatchedTime("web-3", "a1", f"/log/{n}", "", -1, START, START + MINUTE, "changed", "why")
        for n in range(3)
    ]

    def ids(numbers: Sequence[int], now: int) -> set[str]:
        file = source(landed=((0, 600),))
        return {
            each.id
            for each in reconcile(
                picture(
                    now=now,
                    file_faults=[file_faults[n] for n in numbers],
                    unwatched=[unwatched[n] for n in numbers],
                    sources=[replace(file, lost=[lost[n] for n in numbers])],
                )
            ).findings
        }

    found = ids(range(3), START + 2 * HOUR)
    assert len(found) == 9
    assert ids(order, START + 5 * HOUR) == found


def test_a_part_of_the_time_names_the_same_findings() -> None:
    """An hour's verdict, and a day's."""
    gone = [source(landed=((0, 100), (120, 600)), stretches=[stretch(100, 20)])]
    whole, part = (
        {each.id for each in reconcile(picture(sources=gone, to_time=to_time)).findings}
        for to_time in (START + HOUR, START + HOUR // 2)
    )
    assert len(whole) == 1
    assert part == whole


def test_each_kind_is_counted_by_itself() -> None:
    file = Finding(kind=FaultKind.MISSING, words="", events=200)
    cut = Finding(kind=FaultKind.CHANGED, words="", partition=0, offset=7, offsets=1_200)
    unreadable = Finding(kind=FaultKind.CHANGED, words="")
    found = counted([file, FOLDER, cut, unreadable, file])
    assert found == (
        KindCount(kind=FaultKind.CHANGED, findings=2, events=1_200, uncounted=1),
        KindCount(kind=FaultKind.MISSING, findings=2, events=400),
        KindCount(kind=FaultKind.UNKNOWN, findings=1, uncounted=1),
    )
    assert summed([*found, *found])[1] == KindCount(kind=FaultKind.MISSING, findings=4, events=800)
