"""Frames are cut the same, however the bytes come, and memory is granted, bounded and given back."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import ProtocolError
from wire.frames import FrameMemory, FrameReader

SCRATCH = 64 * 1024
LIMIT = 1024 * 1024


def reader(memory: FrameMemory | None = None, scratch: int = SCRATCH) -> FrameReader:
    return FrameReader(
        memoryview(bytearray(scratch)), memory or FrameMemory(4 * LIMIT), lambda _key: LIMIT
    )


def deliver(frames: FrameReader, data: bytes) -> Iterator[memoryview]:
    """What a socket does with `data`: fill the targets in their order, as far as they reach."""
    while data:
        count = 0
        for target in frames.targets():
            part = data[: len(target)]
            target[: len(part)] = part
            data = data[len(part) :]
            count += len(part)
        yield from frames.received(count)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


bodies = st.lists(
    st.binary(min_size=8, max_size=60) | st.integers(9_000, 200_000).map(lambda size: bytes(size)),
    max_size=6,
)


@given(bodies, st.lists(st.integers(1, 70_000), max_size=40), st.binary(max_size=3))
def test_frames_do_not_depend_on_how_bytes_arrive(
    sent: list[bytes], cuts: list[int], trailing: bytes
) -> None:
    memory = FrameMemory(4 * LIMIT)
    frames = reader(memory)
    stream = b"".join(frame(body) for body in sent) + trailing
    got: list[bytes] = []
    for cut in cuts:
        got += [bytes(one) for one in deliver(frames, stream[:cut])]
        stream = stream[cut:]
    got += [bytes(one) for one in deliver(frames, stream)]
    assert got == sent
    assert frames.partial == bool(trailing)
    frames.close()
    assert memory.used == 0


def test_byte_by_byte() -> None:
    frames = reader()
    sent = [b"12345678", b"x" * 100, b"y" * 20_000]
    stream = b"".join(frame(body) for body in sent)
    got = [bytes(one) for byte in stream for one in deliver(frames, bytes([byte]))]
    assert got == sent


@given(st.integers(0, 5), bodies)
def test_a_suspended_reader_goes_on_where_it_was(stop_after: int, sent: list[bytes]) -> None:
    memory = FrameMemory(4 * LIMIT)
    scratch = memoryview(bytearray(SCRATCH * 16))
    frames = FrameReader(scratch, memory, lambda _key: LIMIT)
    stream = b"".join(frame(body) for body in sent)
    scratch[: len(stream)] = stream
    cut = frames.received(len(stream))
    got = []
    for one in cut:
        got.append(bytes(one))
        if len(got) == stop_after:
            assert frames.suspend()
            scratch[:] = bytes(len(scratch))  # another connection receives
    assert got == sent
    assert memory.used == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, LIMIT + 1, 2**31 - 1])
def test_a_size_is_not_believed_beyond_the_limit(size: int) -> None:
    frames = reader()
    with pytest.raises(ProtocolError, match="a frame of"):
        list(deliver(frames, struct.pack(">ihh", size, 3, 0)))


def test_the_limit_is_that_of_the_api() -> None:
    memory = FrameMemory(4 * LIMIT)
    frames = FrameReader(
        memoryview(bytearray(SCRATCH)), memory, lambda key: LIMIT if key == 0 else 20_000
    )
    assert not list(deliver(frames, struct.pack(">ihh", 30_000, 0, 0)))
    with pytest.raises(ProtocolError, match="API 3"):
        list(
            deliver(
                FrameReader(
                    memoryview(bytearray(SCRATCH)),
                    memory,
                    lambda key: LIMIT if key == 0 else 20_000,
                ),
                struct.pack(">ihh", 30_000, 3, 0),
            )
        )


def test_frames_wait_for_memory_and_get_it_in_their_order() -> None:
    memory = FrameMemory(LIMIT)
    first, second, third = reader(memory), reader(memory), reader(memory)
    order = []
    body = b"z" * (LIMIT // 2 - 100)
    half = frame(body)[:1000]
    assert not list(deliver(first, half))
    assert not list(deliver(second, half))
    assert not list(deliver(third, half))
    assert not first.starved
    assert not second.starved
    assert third.starved

    def granted() -> bool:
        order.append("third")
        return third.grant()

    memory.wait(granted)
    assert [bytes(one) for one in deliver(first, frame(body)[1000:])] == [body]
    assert order == ["third"]
    assert not third.starved
    assert [bytes(one) for one in deliver(third, frame(body)[1000:])] == [body]
    second.close()
    assert memory.used == 0


def test_little_is_received_while_memory_is_scarce() -> None:
    memory = FrameMemory(LIMIT)
    assert sum(map(len, reader(memory).targets())) == SCRATCH
    taken = memory.take(LIMIT)
    assert taken is not None
    assert sum(map(len, reader(memory).targets())) < SCRATCH
    memory.give(taken)
    assert sum(map(len, reader(memory).targets())) == SCRATCH


def test_a_frame_larger_than_all_memory_is_granted_when_nothing_else_is() -> None:
    memory = FrameMemory(1000)
    taken = memory.take(5000)
    assert taken is not None
    assert memory.take(1) is None
    memory.give(taken)
    assert memory.used == 0


def test_buffers_are_used_again() -> None:
    memory = FrameMemory(4 * LIMIT)
    first = memory.take(100_000)
    assert first is not None
    memory.give(first)
    assert memory.take(90_000) is first
