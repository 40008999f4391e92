"""Memory for unfinished frames is bounded, shared fairly, and all of it comes back."""

import random
import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import ProtocolError
from wire.framing.frame_memory import FrameMemory
from wire.framing.frames import FrameReader

MIB = 1024 * 1024
SCRATCH = 64 * 1024
LARGEST = 32 * MIB
ZEROS = memoryview(bytes(LARGEST))


class Sender:
    """A connection and who sends on it, in a loop without sockets."""

    def __init__(
        self, memory: FrameMemory, scratch: memoryview, address: str, size: int, sends: int
    ) -> None:
        self.frames = FrameReader(scratch, memory, lambda _key: LARGEST, address)
        self._memory = memory
        self._head = struct.pack(">ih", size, 0)
        self._position = 0
        self._sends = min(sends, 4 + size)
        self.waits = self.finished = self.closed = False

    @property
    def has_more(self) -> bool:
        return not self.waits and self._position < self._sends

    def send(self, count: int) -> None:
        """As much as the reader takes of so many bytes."""
        target = self.frames.targets()[0]
        count = min(count, self._sends - self._position, len(target))
        target[:count] = ZEROS[:count]
        if self._position == 0:
            target[: len(self._head)] = self._head
        self._position += count
        for _ in self.frames.received(count):
            self.finished = True
        if self.frames.starved:
            self.waits = True
            self._memory.wait(partial(self._granted), self.frames)

    def _granted(self) -> bool:
        if not self.closed and not self.frames.grant():
            return False
        self.waits = False
        return True

    def close(self) -> None:
        self.closed = True
        self.frames.close()


def shared() -> memoryview:
    return memoryview(bytearray(SCRATCH))


def go_on(senders: list[Sender], seed: int = 0) -> None:
    """Until nobody can send any more."""
    chance = random.Random(seed)
    while active := [each for each in senders if each.has_more]:
        chance.choice(active).send(256 * 1024)


def half_sent(memory: FrameMemory, address: str, count: int) -> list[Sender]:
    scratch = shared()
    return [Sender(memory, scratch, address, 30 * MIB, 25 * MIB) for _ in range(count)]


def test_many_half_sent_frames_are_bounded() -> None:
    memory = FrameMemory(64 * MIB)
    senders = [each for host in range(8) for each in half_sent(memory, f"10.0.0.{host}", 10)]
    go_on(senders)
    assert memory.used <= 64 * MIB
    assert memory.beyond <= LARGEST
    assert memory.kept <= 16 * MIB
    for sender in senders:
        sender.close()
    assert (memory.used, memory.beyond, memory.kept) == (0, 0, 0)


@pytest.mark.parametrize(
    ("senders", "of_each", "address", "sizes"),
    [
        pytest.param(1, 60, "10.0.1.1", [MIB, 10 * MIB], id="half of it, of one address"),
        pytest.param(1, 60, "10.0.0.0", [MIB] * 4, id="room for usual frames of the same address"),
        pytest.param(20, 5, "10.0.1.1", [MIB] * 8, id="a quarter of it, of many addresses"),
    ],
)
def test_what_large_frames_leave_to_others(
    senders: int, of_each: int, address: str, sizes: list[int]
) -> None:
    memory = FrameMemory(64 * MIB)
    for host in range(senders):
        go_on(half_sent(memory, f"10.0.0.{host}", of_each))
    scratch = shared()
    others = [Sender(memory, scratch, address, size, size + 4) for size in sizes]
    go_on(others)
    assert all(each.finished for each in others)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
            st.integers(9, 40_000) | st.integers(MIB // 2, 12 * MIB),
        ),
        max_size=12,
    ),
    st.integers(0, 2**32),
)
def test_all_that_is_sent_whole_is_served_in_the_end(
    sizes: list[tuple[str, int]], seed: int
) -> None:
    memory = FrameMemory(4 * MIB)
    scratch = shared()
    senders = [Sender(memory, scratch, address, size, size + 4) for address, size in sizes]
    go_on(senders, seed)
    assert all(each.finished for each in senders)
    assert (memory.used, memory.beyond, memory.kept) == (0, 0, 0)
    assert not memory.contended


def test_who_goes_takes_nothing_with_it() -> None:
    memory = FrameMemory(8 * MIB)
    senders = half_sent(memory, "10.0.0.1", 10)
    go_on(senders)
    assert memory.contended
    for sender in senders:
        sender.close()
    assert memory.used == memory.beyond == memory.kept == 0


def test_too_much_to_keep_closes_the_connection_it_came_on() -> None:
    memory = FrameMemory(8 * MIB)
    go_on(half_sent(memory, "10.0.0.1", 10))
    with pytest.raises(ProtocolError, match="no memory for more requests"):
        for _ in range(1000):
            go_on(half_sent(memory, "10.0.0.1", 1))
    assert memory.kept <= 1 * MIB
    go_on(half_sent(memory, "10.0.0.2", 10))


def test_large_frames_take_what_has_come_and_no_more() -> None:
    memory = FrameMemory(64 * MIB)
    sender = Sender(memory, shared(), "10.0.0.1", 30 * MIB, 5 * MIB)
    go_on([sender])
    assert 5 * MIB <= memory.used <= 6 * MIB + SCRATCH


def test_little_is_received_while_memory_is_scarce() -> None:
    memory = FrameMemory(4 * MIB)
    first, second, third = (
        FrameReader(shared(), memory, lambda _key: LARGEST, address) for address in "abc"
    )

    def at_once(frames: FrameReader) -> int:
        return sum(map(len, frames.targets()))

    assert at_once(second) == SCRATCH
    assert memory.reserve(2 * MIB, first)
    assert (at_once(first), at_once(second)) == (SCRATCH // 4, SCRATCH)
    assert memory.reserve(MIB, third)
    assert at_once(second) == SCRATCH // 4
    memory.keep(MIB // 4 + 1, "b")
    assert at_once(second) == SCRATCH // 16
    memory.keep_no_more(MIB // 4 + 1, "b")
    memory.release(2 * MIB, first)
    memory.release(MIB, third)
    assert at_once(second) == SCRATCH


def test_buffers_are_used_again_but_for_the_largest() -> None:
    memory = FrameMemory(64 * MIB)
    for size in (128 * 1024, 4 * MIB):
        buffer = memory.buffer(size)
        memory.give_back(buffer)
        assert memory.buffer(size - 1000) is buffer
    large = memory.buffer(9 * MIB)
    memory.give_back(large)
    assert memory.buffer(9 * MIB) is not large


def test_the_pool_is_bounded() -> None:
    memory = FrameMemory(64 * MIB)
    given = [memory.buffer(size) for size in [MIB] * 30 + [5 * MIB] * 10]
    for buffer in given:
        memory.give_back(buffer)
    again = [memory.buffer(MIB) for _ in range(30)] + [memory.buffer(5 * MIB) for _ in range(10)]
    reused = {id(buffer) for buffer in given} & {id(buffer) for buffer in again}
    assert sum(len(buffer) for buffer in given if id(buffer) in reused) == 16 * MIB
