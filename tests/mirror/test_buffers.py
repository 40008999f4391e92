"""How much memory lanes get."""

import pytest

from mirror.buffers import portion

MEMORY = 48 * 1024 * 1024


@pytest.mark.parametrize("ways", [1, 3, 9, 100, 400, 600])
def test_all_lanes_together_have_what_there_is_and_no_more(ways: int) -> None:
    usual, aside = (portion(MEMORY, ways, aside=each) for each in (False, True))
    total = ways * (usual.buffers * usual.size + aside.buffers * aside.size)
    assert total <= MEMORY
    assert min(usual.buffers, aside.buffers) >= 2
    if ways >= 3:  # for fewer pairs more would be of no use
        assert total >= 0.8 * MEMORY or usual.size == 4 * 1024 * 1024


def test_a_buffer_is_never_too_small_to_be_of_use() -> None:
    assert portion(4 * 1024 * 1024, 10_000, aside=True) == (2, 8 * 1024)
