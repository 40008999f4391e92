"""Splits a chunk of a file into complete lines and their positions. C if compiled, else Python."""

import sys
from typing import Final

try:
    from agent.encoding.lines._line_splitting import split
except ImportError:
    NATIVE = False
else:
    NATIVE = True

ALL: Final = sys.maxsize


def lines_of(
    chunk: bytes, line_break: int, position: int, most: int = ALL, *, native: bool = NATIVE
) -> tuple[list[bytes], list[int], int]:
    """Returns at most `most` lines without line breaks; their positions, and the end of the last
    line; and the size of the longest line."""
    if native:
        return split(chunk, line_break, position, most)
    bodies = chunk.split(bytes([line_break]), -1 if most == ALL else most)
    bodies.pop()
    line_position = position
    positions = [position]
    positions += [line_position := line_position + len(body) + 1 for body in bodies]
    return bodies, positions, max(map(len, bodies), default=0)
