"""Serves large requests in pieces, so that other clients do not wait long.

    decoded    in pieces, by `wire.framing.codec`
    handled    as several requests of at most `of_a_piece` elements, whose answers are joined
    encoded    in pieces

Each piece takes a turn, and each turn of the event loop does one piece, over all clients. So the
joined answer is not one consistent snapshot. If an element is named twice, in two pieces, its
second answer is independent of the first.

A request is cut at the array that `Cut` names: `topics.partitions` is the partitions of all topics.
A topic whose partitions are in two pieces is merged again in the answer.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from wire.framing.primitives import ELEMENTS_OF_A_PIECE

T = TypeVar("T")

_ELEMENTS: Final = 128  # some two milliseconds, as they are looked up and refused


class TooMuch(Exception):
    """A request has more elements than its client may send."""


class Gone(Exception):
    """The client has disconnected, and the memory of its request has been reused."""


class Cut(msgspec.Struct, frozen=True):
    """The points where a request is split and its answers are joined: field names separated by
    dots."""

    request: str
    response: str
    of_a_piece: int = _ELEMENTS

    def pieces(self, request: T) -> Iterator[T]:
        """Yields requests that together are equivalent to this one."""
        for piece, _ in _pieces(request, self.request.split("."), self.of_a_piece):
            yield piece

    def joined(self, first: T, second: T) -> T:
        answer: T = _joined(first, second, self.response.split("."))
        return answer


class Turns:
    """Allows one piece of work in each turn of the event loop."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    async def next(self) -> None:
        """Waits for a turn; the caller then does one piece of work."""
        async with self._one:
            await asyncio.sleep(0)


class InTurns:
    """The work for one request, a piece in each turn. `seconds` is the time spent on all pieces."""

    def __init__(self, turns: Turns, goes_on: Callable[[], bool]) -> None:
        """`goes_on` returns whether the client still waits; if not, `Gone` is raised."""
        self.seconds = 0.0
        self._turns = turns
        self._goes_on = goes_on

    async def do(self, work: Generator[None, None, T], most: int | None = None) -> T:
        """Runs the work and returns its result. Raises `TooMuch` if there are more than `most`
        elements."""
        piece_count = 0
        while True:
            start_time = await self._turn()
            try:
                next(work)
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                self.seconds += time.perf_counter() - start_time
            piece_count += 1
            if most is not None and piece_count * ELEMENTS_OF_A_PIECE > most:
                raise TooMuch(f"the request has more than {most} elements")

    async def handle(self, cut: Cut, request: T, handle: Callable[[T], Any]) -> Any:
        """Handles the pieces of a request, and joins their answers into one."""
        answer = None
        pieces = cut.pieces(request)
        while True:
            start_time = await self._turn()
            piece = next(pieces, None)
            if piece is None:
                return answer
            piece_answer = handle(piece)
            self.seconds += time.perf_counter() - start_time
            if inspect.isawaitable(piece_answer):
                piece_answer = await piece_answer
            answer = piece_answer if answer is None else cut.joined(answer, piece_answer)

    async def _turn(self) -> float:
        await self._turns.next()
        if not self._goes_on():
            raise Gone
        return time.perf_counter()


def _pieces(value: Any, path: list[str], most: int) -> Iterator[tuple[Any, int]]:
    """What is cut, and the number of elements in each piece; an empty one counts as one."""
    name, *inner_path = path
    elements = getattr(value, name)
    if not elements or (not inner_path and len(elements) <= most):
        yield value, len(elements or ()) or 1
        return
    if not inner_path:
        for start in range(0, len(elements), most):
            piece = elements[start : start + most]
            yield replace(value, **{name: piece}), len(piece)
        return
    group: list[Any] = []
    count = 0
    for element in elements:
        for part, size in _pieces(element, inner_path, most):
            if group and count + size > most:
                yield replace(value, **{name: tuple(group)}), count
                group, count = [], 0
            group.append(part)
            count += size
    yield replace(value, **{name: tuple(group)}), count


def _joined(first: Any, second: Any, path: list[str]) -> Any:
    name, *inner_path = path
    first_elements, second_elements = getattr(first, name), getattr(second, name)
    if not first_elements or not second_elements:
        return replace(first, **{name: first_elements or second_elements})
    if inner_path and _is_one(first_elements[-1], second_elements[0], inner_path[0]):
        first_elements, second_elements = (
            (*first_elements[:-1], _joined(first_elements[-1], second_elements[0], inner_path)),
            second_elements[1:],
        )
    return replace(first, **{name: (*first_elements, *second_elements)})


def _is_one(first: Any, second: Any, cut_at: str) -> bool:
    """Whether both are parts of one element."""
    return bool(replace(first, **{cut_at: ()}) == replace(second, **{cut_at: ()}))
