"""How much memory lanes get."""

import asyncio

import pytest

from mirror.buffers import AnswerBuffers, portion

MEMORY = 48 * 1024 * 1024


@pytest.mark.parametrize("ways", [1, 3, 9, 100, 400, 600])
def test_all_lanes_together_have_what_there_is_and_no_more(ways: int) -> None:
    usual, aside = (portion(MEMORY, ways, aside=each) for each in (False, True))
    total = ways * (usual.buffers * usual.size + aside.buffers * aside.size)
    assert total <= MEMORY
    assert min(usual.buffers, aside.buffers) >= 2
    if ways >= 3:  # for fewer pairs more would be of no use
        assert total >= 0.8 * MEMORY or usual.size == 4 * 1024 * 1024


def test_a_buffer_is_given_back_once() -> None:
    async def twice() -> None:
        buffers = AnswerBuffers(2, 1024)
        buffer = await buffers.take()
        buffers.give_back(buffer)
        with pytest.raises(ValueError, match="given back"):
            buffers.give_back(buffer)
        assert buffers.in_use == 0
        assert await buffers.take() is not await buffers.take()

    asyncio.run(twice())


def test_a_buffer_is_never_too_small_to_be_of_use() -> None:
    assert portion(4 * 1024 * 1024, 10_000, aside=True) == (2, 8 * 1024)
