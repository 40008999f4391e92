"""A chunk of a file as its complete lines, and where each stands: in C, or without it the same."""

import sys
from typing import Final

try:
    from agent.events._line_splitting import split
except ImportError:
    NATIVE = False
else:
    NATIVE = True

ALL: Final = sys.maxsize


def lines_of(
    chunk: bytes, line_break: int, position: int, most: int = ALL, *, native: bool = NATIVE
) -> tuple[list[bytes], list[int], int]:
    """At most so many, without their line breaks; their positions, and one more, where the last
    ends; and the size of the longest."""
    if native:
        return split(chunk, line_break, position, most)
    bodies = chunk.split(bytes([line_break]), -1 if most == ALL else most)
    bodies.pop()
    at = position
    positions = [position]
    positions += [at := at + len(body) + 1 for body in bodies]
    return bodies, positions, max(map(len, bodies), default=0)
