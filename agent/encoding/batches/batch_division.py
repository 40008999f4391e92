"""Divides pieces into batches. Pure.

The pieces stay in their order, in which their events are sent. A batch ends

1. where the window of the event times changes, once it has `SMALL_BATCH` bytes, so that times that
   jitter around the end of a window do not make small batches;
2. where it has its share: the bytes are spread evenly over as many batches as bring each closest to
   the wanted size.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from agent.encoding.batches.framing import Stretch
from agent.encoding.batches.pieces import Piece

SMALL_BATCH: Final = 128 * 1024


def cut_into_batches(
    pieces: Sequence[Piece], window_millis: int, target_bytes: int
) -> list[list[Piece]]:
    """Returns the pieces of each batch. `target_bytes` is the size of a batch before
    compression."""
    total = sum(whole_piece.size for whole_piece in pieces)
    share = total / max(1, round(total / target_bytes))
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
        stretch, count = piece.stretch, len(piece)
        if stretch is None:
            self._put(piece, self._window)
            return
        windows = self._windows(stretch)
        is_same_window = len(windows) == 1
        if piece.whole or (is_same_window and self._size + piece.size <= self._share):
            if self._ends_before(windows[0], piece.size / 2 if piece.whole else 0):
                self._begin()
            self._put(piece, windows[-1])
            return
        sums = list(accumulate([length + piece.overhead for length in stretch.lengths]))
        start = 0
        while start < count:
            if self._ends_before(windows[0 if is_same_window else start]):
                self._begin()
            stop = self._end(start, sums, windows)
            self._put(piece.part(start, stop), windows[0 if is_same_window else stop - 1])
            start = stop

    def _begin(self) -> None:
        self.batches.append([])
        self._size = 0

    def _put(self, piece: Piece, window: int | None) -> None:
        self.batches[-1].append(piece)
        self._size += piece.size
        self._window = window

    def _windows(self, stretch: Stretch) -> Sequence[int]:
        """The window of each event, or one window if all events share it."""
        first = stretch.earliest // self._window_millis
        if isinstance(stretch.times, int) or first == stretch.latest // self._window_millis:
            return [first]
        return [time // self._window_millis for time in stretch.times]

    def _ends_before(self, window: int, half: float = 0.0) -> bool:
        """Whether the batch ends before the next event or piece. A piece that cannot be divided
        joins the batch if its first half fits."""
        if not self._size:
            return False
        if window != self._window and self._size >= SMALL_BATCH:
            return True
        return self._size + half >= self._share

    def _end(self, start: int, sums: Sequence[int], windows: Sequence[int]) -> int:
        """The index of the event before which a batch ends that has the events from `start` on."""
        size_before = (sums[start - 1] if start else 0) - self._size
        end = min(bisect_left(sums, self._share + size_before, start) + 1, len(sums))
        if len(windows) == 1:
            return end
        begin = bisect_left(sums, SMALL_BATCH + size_before, start) + 1
        changes = (index for index in range(begin, end) if windows[index] != windows[index - 1])
        return next(changes, end)


__all__ = ["SMALL_BATCH", "cut_into_batches"]
