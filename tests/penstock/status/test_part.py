"""One part, asked without being waited for."""

import threading
import time
from queue import Empty, SimpleQueue

import pytest

from penstock.status.part import Part, Silent

NEVER = 1_000_000.0


def soon() -> float:
    return time.monotonic() + 30


def test_an_answer_is_kept_for_a_while() -> None:
    answers = iter("ab")
    part = Part("it", lambda: next(answers), lambda: None, every=NEVER)
    for _ in range(3):
        part.ask()
        assert part.answer(soon()) == "a"


def test_an_error_is_raised_and_asked_again() -> None:
    answers = SimpleQueue[int]()
    part = Part("it", answers.get_nowait, lambda: None, every=NEVER)
    part.ask()
    with pytest.raises(Empty):
        part.answer(soon())
    answers.put(5)
    part.ask()
    assert part.answer(soon()) == 5


def test_who_takes_long_is_asked_once_and_closed_when_done() -> None:
    answers = SimpleQueue[int]()
    asked: list[str] = []
    closed = threading.Event()

    def question() -> int:
        asked.append("?")
        return answers.get()

    part = Part("it", question, closed.set, every=0)
    for _ in range(3):
        part.ask()
        with pytest.raises(Silent):
            part.answer(time.monotonic())
    part.close()
    assert not closed.is_set()
    answers.put(7)
    assert closed.wait(60)
    assert part.answer(soon()) == 7
    assert asked == ["?"]


def test_who_is_idle_is_closed_at_once() -> None:
    closed: list[str] = []
    part = Part("it", lambda: 1, lambda: closed.append("!"), every=0)
    part.ask()
    part.answer(soon())
    part.close()
    assert closed == ["!"]
