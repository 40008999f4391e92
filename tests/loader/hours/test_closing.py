"""What is done with hours that are over."""

from hypothesis import given
from hypothesis import strategies as st

from loader.config import CompletenessConfig
from loader.hours.closing import Closing, Merge, merge_of, open_hours, to_close
from loader.hours.completeness import Complete, Waiting
from loader.manifests import HourState
from loader.tables import HOUR_MILLIS
from tests.loader.hours.manifests import hour, manifest

CONFIG = CompletenessConfig(deadline=6 * 3600.0)
OPEN = HourState(rows=1, files=("f",))
END = hour(0) + HOUR_MILLIS
DEADLINE = END + 6 * HOUR_MILLIS


def test_hours_that_are_over_and_not_complete_are_open() -> None:
    hours = {
        hour(2): OPEN,
        hour(1): OPEN,
        hour(0): HourState(rows=1, files=("f",), complete=3),
        hour(3): OPEN,
    }
    assert open_hours(manifest(hours), hour(3)) == (hour(1), hour(2))
    assert open_hours(manifest(hours), hour(3) - 1) == (hour(1),)
    assert open_hours(None, hour(9)) == ()


def test_hours_without_rows_are_open_too() -> None:
    """Since the table's first, and of the last two days."""
    hours = {hour(0): HourState(rows=1, files=("f",), complete=3), hour(2): OPEN}
    assert open_hours(manifest(hours), hour(4)) == (hour(1), hour(2), hour(3))
    assert open_hours(manifest(hours), hour(4) + HOUR_MILLIS - 1) == (hour(1), hour(2), hour(3))
    late = open_hours(manifest(hours), hour(1000))
    assert late == (hour(2), *(hour(at) for at in range(952, 1000)))
    assert open_hours(manifest({hour(9): OPEN}), hour(4)) == ()
    assert open_hours(manifest({}), hour(4)) == ()


def test_a_complete_hour_is_closed_whenever_that_is() -> None:
    before = manifest({hour(0): OPEN, hour(1): HourState(rows=1, files=("f",), incomplete="web")})
    verdicts = {each: Complete("agents") for each in (hour(1), hour(0))}
    assert to_close(before, verdicts, hour(2), CONFIG) == (
        Closing(hour(0), by="agents"),
        Closing(hour(1), by="agents"),
    )


def test_an_hour_that_is_complete_or_not_over_is_left_alone() -> None:
    before = manifest({hour(0): HourState(rows=1, files=("f",), complete=3), hour(1): OPEN})
    verdicts = {each: Complete("agents") for each in (hour(0), hour(1), hour(2))}
    assert to_close(before, verdicts, hour(2) - 1, CONFIG) == ()


def test_an_hour_without_rows_is_closed_like_any_other() -> None:
    before = manifest({hour(-9): OPEN})
    done = {hour(0): Complete("agents")}
    assert to_close(before, done, END, CONFIG) == (Closing(hour(0), by="agents"),)
    waiting = {hour(0): Waiting("agents on web-1")}
    assert to_close(before, waiting, DEADLINE - 1, CONFIG) == ()
    assert to_close(before, waiting, DEADLINE, CONFIG) == (
        Closing(hour(0), missing="agents on web-1"),
    )


def test_an_hour_is_waited_for_until_the_deadline() -> None:
    waiting = {hour(0): Waiting("agents on web-1", ("web-1",))}
    before = manifest({hour(0): OPEN})
    assert to_close(before, waiting, DEADLINE - 1, CONFIG) == ()
    assert to_close(before, waiting, DEADLINE, CONFIG) == (
        Closing(hour(0), missing="agents on web-1", names=("web-1",)),
    )


def test_what_is_missing_is_said_again_when_it_changes() -> None:
    before = manifest({hour(0): HourState(rows=1, files=("f",), incomplete="agents on web-1")})
    same, other = Waiting("agents on web-1"), Waiting("agents on web-2")
    assert to_close(before, {hour(0): same}, DEADLINE, CONFIG) == ()
    assert [each.missing for each in to_close(before, {hour(0): other}, DEADLINE, CONFIG)] == [
        "agents on web-2"
    ]


def test_small_files_are_merged() -> None:
    config = CompletenessConfig(merge_below=100, merge_to=250)
    sizes = {"a": 99, "b": 100, "c": 50, "d": 99, "e": 3}
    assert merge_of(hour(0), sizes, sizes, config) == Merge(hour(0), ("a", "c", "d", "e"), 251, 2)
    assert merge_of(hour(0), "ab", sizes, config) is None
    assert merge_of(hour(0), "b", sizes, config) is None
    assert merge_of(hour(0), "ac", sizes, config) == Merge(hour(0), ("a", "c"), 149, 1)


@given(
    st.dictionaries(st.text("abc", min_size=1), st.integers(0, 50)),
    st.integers(1, 30),
    st.integers(1, 60),
)
def test_files_become_fewer_or_stay(sizes: dict[str, int], below: int, to: int) -> None:
    config = CompletenessConfig(merge_below=below, merge_to=to)
    merge = merge_of(hour(0), sizes, sizes, config)
    if merge is not None:
        assert 1 <= merge.files_wanted < len(merge.files)
        assert all(sizes[each] < below for each in merge.files)
        assert merge.bytes == sum(sizes[each] for each in merge.files) <= merge.files_wanted * to
