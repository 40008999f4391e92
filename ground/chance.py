"""Chance, for what is not to come to the same everywhere: ends of pauses, brokers that are asked.

It is the operating system's: processes that were forked from one do not have the same, and whoever
counts on a sequence of Python's random numbers is not disturbed by a thread that waits.
"""

from collections.abc import Iterable
from random import SystemRandom
from typing import TypeVar

T = TypeVar("T")

_system = SystemRandom()

chance = _system.random
any_below = _system.randrange


def shuffled(several: Iterable[T]) -> list[T]:
    made = list(several)
    _system.shuffle(made)
    return made
