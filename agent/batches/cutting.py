"""Where one batch ends and the next begins. Pure.

Pieces come in the order in which their events are to be sent, and keep it. A batch ends

1. where the window of the events' times changes, once it has `SMALL_BATCH` bytes: times that jitter
   around the end of a window do not make it small;
2. where it has its share: what there is, is shared out evenly over as few batches as may be.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from agent.batches.pieces import Piece

SMALL_BATCH: Final = 64 * 1024
_TOLERANCE: Final = 1.1  # a little more is no reason for another batch


def cut_into_batches(
    pieces: Sequence[Piece], window_millis: int, most_bytes: int
) -> list[list[Piece]]:
    """`most_bytes` is what a batch should have, before compression."""
    total = sum(each.size for each in pieces)
    share = total / max(1, -(-total // int(most_bytes * _TOLERANCE)))
    cutter = _Cutter(window_millis, max(share, 1.0))
    for piece in pieces:
        cutter.take(piece)
    return cutter.batches


class _Cutter:
    def __init__(self, window_millis: int, share: float) -> None:
        self.batches: list[list[Piece]] = [[]]
        self._window_millis = window_millis
        self._share = share
        self._size = 0
        self._window: int | None = None

    def take(self, piece: Piece) -> None:
        rest = piece
        while len(rest):
            windows = self._windows(rest)
            if self._ends_before(rest, windows[0]):
                self.batches.append([])
                self._size = 0
            at = 0 if rest.whole else self._end_within(rest, windows)
            if not 0 < at < len(rest):
                break
            part, rest = rest.divided(at)
            self._put(part, windows[at - 1] if len(windows) > 1 else windows[0])
        self._put(rest, self._windows(rest)[-1] if len(rest) else self._window)

    def _put(self, piece: Piece, window: int | None) -> None:
        self.batches[-1].append(piece)
        self._size += piece.size
        self._window = window

    def _windows(self, piece: Piece) -> Sequence[int]:
        """Of each event, or one of all of them."""
        stretch = piece.stretch
        assert stretch is not None
        first, last = stretch.earliest, stretch.latest
        if first // self._window_millis == last // self._window_millis:
            return [first // self._window_millis]
        assert not isinstance(stretch.times, int)
        return [time // self._window_millis for time in stretch.times]

    def _ends_before(self, piece: Piece, window: int) -> bool:
        if not self._size:
            return False
        half_over = self._size + piece.size / 2 > self._share if piece.whole else False
        return (
            self._size >= self._share
            or half_over
            or (window != self._window and self._size >= SMALL_BATCH)
        )

    def _end_within(self, piece: Piece, windows: Sequence[int]) -> int:
        """At which event of the piece the batch should end; its length if it need not."""
        stretch = piece.stretch
        assert stretch is not None
        several = len(windows) > 1
        if self._size + piece.size <= self._share and not several:
            return len(piece)
        own = self._size
        overhead = piece.overhead
        sums = list(accumulate([length + overhead for length in stretch.lengths]))
        end = min(bisect_left(sums, self._share - own) + 1, len(piece))
        if several:
            begin = bisect_left(sums, SMALL_BATCH - own) + 1
            changes = (at for at in range(begin, end) if windows[at] != windows[at - 1])
            return next(changes, end)
        return end


__all__ = ["SMALL_BATCH", "cut_into_batches"]
