"""The witness tells what no program could know from what is wrong, by rules of their own."""

from pathlib import PurePath

import pytest
from msgspec.structs import replace

from tests.campaigns.witness.examples import GREEN, PATH, SIZE, landed, rules, written
from tests.campaigns.witness.judging import judge
from tests.campaigns.witness.reading import Row
from tests.campaigns.witness.truth import NEVER, Blind, File, Line
from tests.campaigns.witness.verdict import Called, Seen


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


def test_what_was_emptied_again_after_it_was_seen_empty_is_such_a_hole_too() -> None:
    """As in the moment in which an agent was killed that had just seen it."""
    truth = written(3)
    (file,) = truth.files
    before = File("a", 0, [PATH], ended=500, cut=True)
    before.lines.append(Line("earlier", before, 0, 0, SIZE, 400))
    file.ended, file.cut, file.before = 60_000, True, before
    truth.files.append(before)
    seen = Seen([Row("part.parquet", "s0", 0, 0, 0, "earlier")], [])
    for dead, rule in ((Blind(450, 90_000), "hole"), (Blind(600, 90_000), "brief hole")):
        truth.blind = [Blind(0, 450), dead]
        assert [each.rule for each in judge(truth, seen, GREEN)] == [rule, "green"]


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


@pytest.mark.parametrize(("known_until", "rule"), [(1_500, "small copy"), (3_500, "double")])
def test_an_agent_that_has_forgotten_all_knew_only_so_much_of_a_copied_file(
    known_until: int, rule: str
) -> None:
    """Nobody knows whose the copy is, but the audit, by the whole first KiB."""
    truth = written(3)
    (file,) = truth.files
    for line in file.lines:
        line.start, line.end = line.start * 50, line.end * 50
    file.size *= 50
    truth.blind.append(Blind(known_until, 60_000))
    truth.is_forgotten()
    file.copied = 50_000
    rows = [replace(row, position=row.position * 50) for row in landed(0, 1, 2)]
    twice = [*rows, *(replace(row, source="s2") for row in rows)]
    assert rules(truth, twice, GREEN) == sorted([rule, "green"])
