"""Children of a run wait where too many want a processor, and nobody waits for ever."""

from harness.crowding import Crowding
from tests.runner.room import SETTLES_SECONDS, Room


class Machine:
    """Of two processors."""

    def __init__(self) -> None:
        self.wanting = 0
        self.now = 0.0

    def room(self) -> Room[str]:
        crowding = Crowding(lambda: self.wanting, lambda: self.now, processors=2)
        return Room("abcdef", always=2, crowding=crowding, clock=lambda: self.now)

    def passes(self, seconds: float) -> None:
        self.now += seconds


def test_where_there_is_time_one_after_the_other_goes_on() -> None:
    """For what one of them wants is seen later."""
    machine = Machine()
    room = machine.room()
    for each in "ab":
        room.leave(each)
    assert list(room.let_in()) == []
    machine.passes(SETTLES_SECONDS)
    assert list(room.let_in()) == ["a"]
    machine.passes(SETTLES_SECONDS)
    assert list(room.let_in()) == ["b"]


def test_where_many_want_a_processor_few_go_on() -> None:
    machine = Machine()
    room = machine.room()
    machine.wanting = 20
    machine.passes(60)
    for each in "abcd":
        room.leave(each)
    assert list(room.let_in()) == []
    room.leave("e")
    assert list(room.let_in()) == ["a"], "two are always in"
    room.forget("a")
    room.forget("f")
    assert list(room.let_in()) == ["b", "c"]
    machine.wanting = 1
    machine.passes(60)
    assert list(room.let_in()) == ["d"]


def test_who_has_ended_is_not_waited_for() -> None:
    machine = Machine()
    room = machine.room()
    for each in "abcdef":
        room.leave(each)
    room.forget("a")
    assert list(room.let_in()) == ["b", "c"]
    machine.passes(SETTLES_SECONDS)
    for each in "bcd":
        room.forget(each)
    assert list(room.let_in()) == ["e", "f"]
    assert list(room.let_in()) == []
