"""Reads a source piece by piece: complete events only, and each event once.

A piece reaches from a position to the end of the last complete event. Incomplete bytes after it are
read again when the file has grown, or taken as they are when it has not grown for the reader's
timeout.

The rest of a line that was too long is skipped, piece by piece, before anything of the line is
handed on: positions within it are never journalled, so that a restart begins with the line again
and gets the same result.
"""

from typing import Final, NamedTuple

from msgspec.structs import replace

from agent.accounting.accounts import added_up
from agent.accounting.alterations import Alteration
from agent.accounting.cuts import Cut
from agent.encoding.events.reader import EventReader
from agent.recognition.followed import Followed

PIECE_BYTES: Final = 256 * 1024
_MOST_ARRIVALS: Final = 16


class Arrival(NamedTuple):
    """A time at which unread bytes up to `end` were first seen."""

    end: int
    at: float


class Intake:
    """The reading of one source. Belongs to the pipeline's thread; others may call `waits_since`.

    It remembers when unread bytes arrived. If these times become many, those closest to each other
    are merged: some bytes then count as older than they are, by an eighth of the longest wait.
    """

    def __init__(self, followed: Followed, now: float) -> None:
        self.followed = followed
        self._arrivals: list[Arrival] = []  # of unread bytes, in order
        self.read_at = now  # when it was last read to its end
        self.goes_on = False  # there was more than the last piece
        self._not_before = 0.0
        self._size = PIECE_BYTES
        self._stuck_at = -1  # the end of the file when every complete event had been read
        self._final_at = 0.0
        self._held: Cut | None = None

    def note_unread(self, now: float) -> None:
        """Notes that the source has unread bytes."""
        arrivals, size = self._arrivals, self.followed.size
        if arrivals and arrivals[-1].end >= size:
            return
        arrivals = [*arrivals, Arrival(size, now)]
        if len(arrivals) > _MOST_ARRIVALS:
            first = min(
                range(_MOST_ARRIVALS), key=lambda index: arrivals[index + 1].at - arrivals[index].at
            )
            arrivals[first : first + 2] = [Arrival(arrivals[first + 1].end, arrivals[first].at)]
        self._arrivals = arrivals

    @property
    def waits_since(self) -> float:
        """The arrival of the oldest unread byte; if there is none, the time of the last read."""
        oldest = self._arrivals[:1]
        if oldest:
            return oldest[0].at
        return self.followed.idle_since if self.followed.unread else self.read_at

    def is_due(self, now: float) -> bool:
        """Whether reading may return more than the last time."""
        if now < self._not_before:
            return False
        return self.followed.size != self._stuck_at or now >= self._final_at

    def cut_added(self, now: float) -> None:
        """Notes that the last cut was added."""
        position = self.followed.progress.position
        self._arrivals = [arrival for arrival in self._arrivals if arrival.end > position]
        if not self._arrivals:
            self.read_at = now

    def put_off(self, until: float) -> None:
        """Discards the last cut, which could not be added; it is read again after `until`."""
        self.start_over()
        self._not_before = until

    def start_over(self) -> None:
        """Discards the reading state after the reader has changed."""
        self._size, self._stuck_at, self._held = PIECE_BYTES, -1, None

    def take(
        self, reader: EventReader, now: float, now_millis: int, most_lines: int | None
    ) -> Cut | None:
        """The next cut; None if there is none yet. Raises OSError if the file cannot be read."""
        position = self.followed.progress.position
        if self._held is not None:
            position += self._held.consumed
        chunk = self.followed.read(self._size, position)
        self.goes_on = False
        if not chunk:
            return self._given_up() if self._is_over(position, now) else None
        at_end = len(chunk) < self._size
        final = at_end and position + len(chunk) == self._stuck_at and now >= self._final_at
        cut = reader.cut(
            chunk,
            position,
            now_millis=now_millis,
            final=final,
            most_lines=most_lines,
            skipping=self._held is not None,
        )
        self.goes_on = not at_end
        if at_end and (cut.skipping or cut.consumed < len(chunk)):
            # Not stuck if the next cut can take more of the bytes already there.
            is_stuck = cut.wait or cut.skipping or not cut.consumed
            self._stuck_at = position + len(chunk) if is_stuck else -1
            self._final_at = self._grown_at(now) + (cut.wait or reader.last_line_timeout)
        if not cut.consumed:
            if not at_end:
                self._size = min(2 * self._size, max(reader.most_bytes, PIECE_BYTES))
            return None
        self._size = PIECE_BYTES
        if self._held is not None:
            cut = one_after_the_other(self._held, cut)
        self._held = cut if cut.skipping else None
        return None if cut.skipping else cut

    def _is_over(self, position: int, now: float) -> bool:
        """Whether a skipped line has had no more bytes for the timeout."""
        return self._held is not None and position == self._stuck_at and now >= self._final_at

    def _given_up(self) -> Cut | None:
        held_cut, self._held = self._held, None
        return held_cut and replace(held_cut, skipping=False)

    def _grown_at(self, now: float) -> float:
        return min(now, self.followed.idle_since) if self.followed.idle_since else now


def one_after_the_other(first: Cut, rest: Cut) -> Cut:
    """The cut of a line that was too long, extended by more skipped bytes."""
    dead_lines = [
        replace(dead_line, size=dead_line.size + rest.consumed) for dead_line in first.dead
    ]
    altered = tuple(
        replace(altered_text, count=altered_text.count + rest.consumed)
        if altered_text.kind is Alteration.CUT
        else altered_text
        for altered_text in first.altered
    )
    return replace(
        first,
        consumed=first.consumed + rest.consumed,
        dead=dead_lines,
        excepted=added_up((*first.excepted, *rest.excepted)),
        wait=rest.wait,
        skipping=rest.skipping,
        altered=altered,
    )
