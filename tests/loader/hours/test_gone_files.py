"""Files of hours that somebody has taken away."""

from loader.hours.closing import as_found, files_left, gone_files
from loader.manifests import HourState
from tests.loader.hours.manifests import hour, manifest

BEFORE = manifest(
    {
        hour(0): HourState(rows=30, files=("a", "b", "c"), bytes=600, changed=4, incomplete="web"),
        hour(1): HourState(rows=5, files=("d",), bytes=50),
        hour(2): HourState(rows=7, files=("e",), bytes=70),
    }
)
HOURS = (hour(0), hour(1))
SIZES = {"a": 100, "c": 200, "of somebody else": 1}


def test_what_is_gone_is_found() -> None:
    assert gone_files(BEFORE, HOURS, SIZES) == {hour(0): ["b"], hour(1): ["d"]}
    assert gone_files(BEFORE, HOURS, {*"abcd"}) == {}


def test_an_hour_has_what_is_left() -> None:
    left = files_left(BEFORE, gone_files(BEFORE, HOURS, SIZES))
    assert left == {hour(0): ("a", "c"), hour(1): ()}
    after = as_found(BEFORE, left, SIZES, {"a": 3, "c": 4})
    assert after.hours == {
        hour(0): HourState(rows=7, files=("a", "c"), bytes=300, changed=4, incomplete="web"),
        hour(1): HourState(rows=0, files=()),
        hour(2): BEFORE.hours[hour(2)],
    }
    assert after.run == BEFORE.run
