"""The witness tells what no program could know from what is wrong, by rules of their own."""

from dataclasses import replace
from pathlib import PurePath

import pytest

from tests.witness.judging import judge
from tests.witness.reading import Row
from tests.witness.test_judging import GREEN, PATH, SIZE, landed, rules, written
from tests.witness.truth import NEVER, Blind, File, Line
from tests.witness.verdict import Called, Seen


def test_a_line_that_nobody_could_read_is_a_hole_of_its_own_kind() -> None:
    truth = written(5)
    truth.files[0].ended = 5500
    assert rules(truth, landed(0, 1, 2, 3), GREEN) == ["brief hole", "green"]


def test_what_was_emptied_before_anything_was_read_of_it_is_such_a_hole_too() -> None:
    truth = written(3)
    truth.files[0].ended, truth.files[0].cut = 60_000, True
    truth.blind.append(Blind(0, 90_000))
    seen = Seen(landed(), [])
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]
    assert rules(truth, landed(0, 1), GREEN) == ["green", "hole"], "it had been read"


def test_what_was_emptied_again_after_it_was_copied_is_such_a_hole_too() -> None:
    """That lines of before were read says nothing of those since."""
    truth = written(3)
    (file,) = truth.files
    before = File("a", 0, [PATH], copied=500)
    before.lines.append(Line("earlier", before, 0, 0, SIZE, 400))
    file.ended, file.cut, file.before = 60_000, True, before
    truth.files.append(before)
    truth.blind.append(Blind(0, 90_000))
    seen = Seen([Row("part.parquet", "s0", 0, 0, 0, "earlier")], [])
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]
    before.copied = NEVER
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["hole", "green"]


def test_what_came_and_went_in_a_folder_that_is_a_second_old_is_such_a_hole_too() -> None:
    """If another file came there after it, which is why the folder looks like any new one."""
    truth = written(3)
    (file,) = truth.files
    file.ended, file.folder_made = 3_500, 2_600
    truth.blind.append(Blind(0, 90_000))
    seen = Seen(landed(), [])
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["hole", "green"]
    truth.files.append(File("a", 2, [PATH]))
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]
    file.folder_made = 2_400
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["hole", "green"]
    file.ended, file.hidden = NEVER, 3_300  # it is there, by a name that nobody looks for
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]


def test_that_it_may_be_so_can_be_said_without_being_red() -> None:
    """Of such lines alone, in that time and that place."""
    truth = written(3)
    (file,) = truth.files
    file.ended, file.cut = 60_000, True
    truth.blind.append(Blind(0, 90_000))
    moment = Called(
        *("unknown", "words", "agent", truth.host, str(PurePath(PATH).parent)),
        from_time=0,
        to_time=90_000,
        accepted="for a moment only, and hardly anybody does that",
    )
    seen = Seen(landed(), [])
    assert judge(truth, seen, replace(GREEN, findings=(moment,))) == []
    for other in (
        replace(moment, accepted="by an operator"),
        replace(moment, path="/elsewhere"),
        replace(moment, from_time=80_000),
    ):
        broken = [each.rule for each in judge(truth, seen, replace(GREEN, findings=(other,)))]
        assert broken == ["brief hole", "green"]
    file.cut = False
    broken = [each.rule for each in judge(truth, seen, replace(GREEN, findings=(moment,)))]
    assert broken == ["hole", "green"], "it was not emptied in place"


@pytest.mark.parametrize(("size", "rule"), [(1023, "small copy"), (1024, "double")])
def test_that_a_file_is_the_copy_of_one_that_is_gone_is_known_of_large_ones(
    size: int, rule: str
) -> None:
    truth = written(2)
    (file,) = truth.files
    file.copied = file.original_gone = 60_000
    file.size = size
    twice = [*landed(0, 1), *landed(0, 1, source="s2")]
    assert rules(truth, twice, GREEN) == sorted([rule, "green"])
