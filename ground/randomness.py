"""Randomness that differs between processes, also after fork: for pauses and for choosing brokers.

It comes from the operating system, so it does not disturb code that relies on a seeded sequence of
Python's random numbers either.
"""

from collections.abc import Iterable
from random import SystemRandom
from typing import TypeVar

T = TypeVar("T")

_system = SystemRandom()

chance = _system.random
any_below = _system.randrange


def shuffled(items: Iterable[T]) -> list[T]:
    shuffled_items = list(items)
    _system.shuffle(shuffled_items)
    return shuffled_items
