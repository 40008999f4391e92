"""Frames are cut alike however the bytes come; memory is granted, bounded and given back."""

import struct
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import ProtocolError
from wire.framing.frame_memory import FrameMemory
from wire.framing.frames import FrameReader

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
    st.binary(min_size=8, max_size=60) | st.integers(9_000, 200_000).map(bytes),
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
        assert not one.readonly, "a batch is stamped in place"
        got.append(bytes(one))
        if len(got) == stop_after:
            frames.suspend()
            scratch[:] = bytes(len(scratch))  # another connection receives
    assert got == sent
    assert memory.used == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, LIMIT + 1, 2**31 - 1])
def test_a_size_is_not_believed_beyond_the_limit(size: int) -> None:
    frames = reader()
    with pytest.raises(ProtocolError, match="frame"):
        list(deliver(frames, struct.pack(">ihh", size, 3, 0)))


def test_the_limit_is_that_of_the_api() -> None:
    memory = FrameMemory(4 * LIMIT)
    frames = FrameReader(
        memoryview(bytearray(SCRATCH)), memory, lambda key: LIMIT if key in {0, None} else 20_000
    )
    assert not list(deliver(frames, struct.pack(">ihh", 30_000, 0, 0)))
    with pytest.raises(ProtocolError, match="API 3"):
        list(
            deliver(
                FrameReader(
                    memoryview(bytearray(SCRATCH)),
                    memory,
                    lambda key: LIMIT if key in {0, None} else 20_000,
                ),
                struct.pack(">ihh", 30_000, 3, 0),
            )
        )


def test_announcing_a_frame_takes_no_memory() -> None:
    memory = FrameMemory(4 * LIMIT)
    readers = [reader(memory) for _ in range(100)]
    for frames in readers:
        assert not list(deliver(frames, struct.pack(">ihh", LIMIT, 0, 0) + bytes(1000)))
    assert memory.used <= 100 * 16 * 1024


def test_without_memory_one_frame_is_finished_after_the_other() -> None:
    memory = FrameMemory(LIMIT)
    readers = [reader(memory) for _ in range(4)]
    body = b"z" * (LIMIT - 100)
    left = {number: frame(body) for number in range(4)}
    finished: list[int] = []
    waiting: set[int] = set()

    def granted(number: int) -> bool:
        if not readers[number].grant():
            return False
        waiting.discard(number)
        return True

    highest = 0
    for _ in range(10_000):
        for number, frames in enumerate(readers):
            if number in finished or number in waiting:
                continue
            piece, left[number] = left[number][:30_000], left[number][30_000:]
            if list(deliver_what_fits(frames, piece, left, number)):
                finished.append(number)
            elif frames.starved:
                waiting.add(number)
                memory.wait(partial(granted, number), frames)
            highest = max(highest, memory.used)
    assert sorted(finished) == [0, 1, 2, 3]
    assert highest <= 2 * LIMIT + LIMIT
    assert memory.used == 0


def deliver_what_fits(
    frames: FrameReader, piece: bytes, left: dict[int, bytes], number: int
) -> Iterator[memoryview]:
    """Deliver as `deliver` does, and put back what comes after the reader is starved."""
    while piece and not frames.starved:
        target = frames.targets()[0]
        part, piece = piece[: len(target)], piece[len(target) :]
        target[: len(part)] = part
        yield from frames.received(len(part))
    left[number] = piece + left[number]


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\0\0\0\7", b"\x7f\xff\xff\xff"])
def test_an_impossible_size_is_refused_as_soon_as_it_is_there(prefix: bytes) -> None:
    with pytest.raises(ProtocolError, match="frame"):
        list(deliver(reader(), prefix))
