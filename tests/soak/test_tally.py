"""Lines are crossed off exactly."""

from tests.soak.tally import Numbers, Tally


def found_everywhere(tally: Tally, lines: list[str]) -> None:
    tally.log.find(lines)
    tally.store.find(lines)


def test_all_lines_were_found_once() -> None:
    tally = Tally()
    tally.write(["a", "b"])
    tally.write(["c"])
    found_everywhere(tally, ["b", "c"])
    found_everywhere(tally, ["a"])
    assert list(tally.objections()) == []
    assert (tally.log.left, tally.written) == (0, 3)


def test_a_lost_line_is_named() -> None:
    tally = Tally()
    tally.write(["a", "b"])
    tally.log.find(["a", "b"])
    tally.store.find(["a"])
    said = list(tally.objections())
    assert "in the store: 1 lines lost: b" in said
    assert not any("the log" in each for each in said)


def test_a_line_that_is_there_twice_is_named() -> None:
    tally = Tally()
    tally.write(["a"])
    found_everywhere(tally, ["a"])
    tally.log.find(["a"])
    said = list(tally.objections())
    assert "in the log: 1 lines there twice, or never written: a" in said
    assert not any("the store" in each for each in said)


def test_one_lost_and_another_twice_do_not_make_up_for_each_other() -> None:
    tally = Tally()
    tally.write(["a", "b"])
    found_everywhere(tally, ["a", "a"])
    assert len([each for each in tally.objections() if "lost" in each]) == 2


def test_numbers_come_once_in_any_order() -> None:
    numbers = Numbers()
    for each in (0, 2, 3, 1, 4):
        numbers.note("a", each)
        numbers.note("b", each)
    assert list(numbers.objections()) == []
    numbers.note("a", 6)
    for each in (2, 6):
        numbers.note("a", each)
    assert numbers.doubled == [("a", 2), ("a", 6)]
    assert list(numbers.objections())
