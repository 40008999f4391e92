"""One input at work: what reads for it, by which schema, how fast; and what became of its lines."""

import logging
import math
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.alterations import Alteration, Altered
from agent.config import Times
from agent.config_inputs import Input, LongLines
from agent.cuts import Cut
from agent.errors import InputError
from agent.events.reader import EventReader
from agent.runs import Fate, Run
from agent.topic_schemas.values import TopicSchema
from ground.printable import one_line

log = logging.getLogger(__name__)

_SAID_EVERY: Final = 60.0
_BURST_SECONDS: Final = 1.0


class Bucket(msgspec.Struct, frozen=True):
    """How many lines of an input may be taken now: `rate` a second, 0 for any number; what was not
    taken is there for a second.

    More may be taken than is in it, since lines that belong together are taken together: it is
    made up for later.
    """

    rate: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float) -> "Bucket":
        return cls(rate, max(1.0, rate * _BURST_SECONDS), now)

    def lines(self, now: float) -> int | None:
        """None: any number."""
        return None if not self.rate else max(0, math.floor(self._tokens(now) + 1e-9))

    def taken(self, lines: int, now: float) -> "Bucket":
        if not self.rate:
            return self
        return replace(self, tokens=self._tokens(now) - lines, at=max(now, self.at))

    def _tokens(self, now: float) -> float:
        grown = self.tokens + max(0.0, now - self.at) * self.rate
        return min(grown, max(1.0, self.rate * _BURST_SECONDS))


class FeedCounts(msgspec.Struct):
    """What the journal has taken over of an input, since the start."""

    events: int = 0
    lines: int = 0
    bytes: int = 0
    filtered_lines: int = 0
    dead_lettered_lines: int = 0
    lost_bytes: int = 0
    cut_lines: int = 0
    adjusted_times: int = 0
    rate_limited_seconds: float = 0.0
    replaced_lines: int = 0
    replaced_characters: int = 0
    dropped_values: int = 0
    unread_files: int = 0

    def alter(self, altered: Altered) -> None:
        """Lines that are cut are counted when they are read."""
        match altered.kind:
            case Alteration.REPLACED:
                self.replaced_lines += altered.lines
                self.replaced_characters += altered.count
            case Alteration.DROPPED:
                self.dropped_values += altered.count
            case Alteration.UNREAD:
                self.unread_files += altered.count

    def add(self, run: Run) -> None:
        """A run in the topic that the input is for."""
        self.events += run.events
        self.lines += run.lines
        self.bytes += run.end_position - run.position
        for each in run.excepted:
            count = max(0, each.count)
            match each.fate:
                case Fate.FILTERED:
                    self.filtered_lines += count
                case Fate.DEAD_LETTERED:
                    self.dead_lettered_lines += count
                case Fate.LOST:
                    self.lost_bytes += max(0, each.bytes)


class Feed(msgspec.Struct, eq=False):
    """`reader` is None as long as there is no schema for it to read by; `stopped` says why."""

    input: Input
    bucket: Bucket
    reader: EventReader | None = None
    schema: TopicSchema | None = None
    stopped: str = ""
    warning: str = ""
    counts: FeedCounts = msgspec.field(default_factory=FeedCounts)
    _refused: TopicSchema | None = None
    _limited_at: float | None = None
    _long_line_said_at: float = float("-inf")
    _looks_said: bool = False

    @classmethod
    def of(cls, each: Input, now: float) -> "Feed":
        return cls(each, Bucket.full(each.rate_limit, now))

    def take_schema(self, schema: TopicSchema | None, times: Times, missing: str) -> bool:
        """Reads by this schema from now on, if it can; whether that changed anything.

        One that the input does not fit is said and left: what was read by so far holds on.
        """
        if schema is None:
            if self.reader is None:
                self.stopped = missing
            return False
        if schema in (self.schema, self._refused):
            return False
        try:
            reader = EventReader(self.input, schema.schema, times)
        except InputError as error:
            self._refused = schema
            if self.reader is None:
                self.stopped = str(error)
            else:
                self.warning = f"version {schema.version} of its schema is not taken: {error}"
            return False
        self.reader, self.schema = reader, schema
        self.stopped = self.warning = ""
        self._refused = None
        return True

    def fail(self, error: Exception) -> None:
        """Something in reading went wrong that should not have: this input stands still, so that
        no other does."""
        self.reader = None
        self._refused = self.schema
        self.stopped = f"reading it failed, see the log: {error!r}"

    def lines_allowed(self, now: float) -> int | None:
        """How many lines may be read now; None: any number."""
        allowed = self.bucket.lines(now)
        if self._limited_at is not None:
            self.counts.rate_limited_seconds += now - self._limited_at
            self._limited_at = None
        if allowed == 0:
            self._limited_at = now
        return allowed

    def took(self, cut: Cut, path: str, now: float) -> None:
        """It was handed on, of the file of this name."""
        lines = cut.lines + sum(max(0, each.count) for each in cut.excepted)
        self.bucket = self.bucket.taken(lines, now)
        self.counts.adjusted_times += cut.clamped
        if cut.looks and not self._looks_said:
            self._looks_said = True
            log.warning(
                "text looks like another encoding input=%s path=%s encoding=%s: "
                "if it is, set `encoding: %s` for this input",
                one_line(self.input.label),
                one_line(path),
                self.input.encoding,
                cut.looks,
            )
        if cut.excepted and self.reader is not None:
            reason = self.reader.too_long
            if any(each.reason == reason for each in cut.excepted):
                self._had_long_line(path, reason, now)

    def _had_long_line(self, path: str, reason: str, now: float) -> None:
        self.counts.cut_lines += self.input.long_lines is LongLines.CUT
        if now >= self._long_line_said_at + _SAID_EVERY:
            self._long_line_said_at = now
            log.warning("%s, by max_line_bytes path=%s", reason, one_line(path))
