"""Chance that no other process has, and that disturbs nobody's."""

import os
import random

import pytest

from ground.randomness import any_below, chance, shuffled


def test_it_disturbs_nobodys_sequence() -> None:
    before = random.getstate()
    assert 0 <= chance() < 1
    assert any_below(3) in range(3)
    assert sorted(shuffled(range(5))) == [*range(5)]
    assert random.getstate() == before


@pytest.mark.not_quick("forks")
def test_processes_forked_from_one_have_different_ones() -> None:
    drawn = {chance()}
    for _ in range(3):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, repr(chance()).encode())
            os._exit(0)
        os.waitpid(child, 0)
        drawn.add(float(os.read(reading, 100)))
        os.close(reading)
        os.close(writing)
    assert len(drawn) == 4
