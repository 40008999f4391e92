"""The runtime state of an input: its reader, schema and rate limit, and the counts of its lines."""

import logging
import math
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.accounting.alterations import Alteration, Altered
from agent.accounting.cuts import Cut
from agent.accounting.runs import Fate, Run
from agent.configuration.config import Times
from agent.configuration.inputs import Input, LongLines
from agent.encoding.events.reader import EventReader
from agent.encoding.topic_schemas.values import TopicSchema
from agent.errors import InputError
from ground.printable import one_line

log = logging.getLogger(__name__)

_SAID_EVERY: Final = 60.0
_BURST_SECONDS: Final = 1.0


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket for the lines of an input: `rate` lines a second, 0 for no limit, with a burst
    of one second.

    Lines that belong together are taken together, so tokens may become negative, and are refilled
    before more lines are taken.
    """

    rate: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float) -> "Bucket":
        return cls(rate, max(1.0, rate * _BURST_SECONDS), now)

    def lines(self, now: float) -> int | None:
        """The number of lines that may be taken now; None for any number."""
        return None if not self.rate else max(0, math.floor(self._tokens(now) + 1e-9))

    def taken(self, lines: int, now: float) -> "Bucket":
        if not self.rate:
            return self
        return replace(self, tokens=self._tokens(now) - lines, at=max(now, self.at))

    def _tokens(self, now: float) -> float:
        token_count = self.tokens + max(0.0, now - self.at) * self.rate
        return min(token_count, max(1.0, self.rate * _BURST_SECONDS))


class FeedCounts(msgspec.Struct):
    """Counts of an input's lines that the journal has taken over since the start."""

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

    def add_altered(self, altered: Altered) -> None:
        """Adds altered text. Cut lines were counted when they were read."""
        match altered.kind:
            case Alteration.REPLACED:
                self.replaced_lines += altered.lines
                self.replaced_characters += altered.count
            case Alteration.DROPPED:
                self.dropped_values += altered.count
            case Alteration.UNREAD:
                self.unread_files += altered.count

    def add(self, run: Run) -> None:
        """Adds a run in the input's topic."""
        self.events += run.events
        self.lines += run.lines
        self.bytes += run.end_position - run.position
        for excepted in run.excepted:
            count = max(0, excepted.count)
            match excepted.fate:
                case Fate.FILTERED:
                    self.filtered_lines += count
                case Fate.DEAD_LETTERED:
                    self.dead_lettered_lines += count
                case Fate.LOST:
                    self.lost_bytes += max(0, excepted.bytes)


class Feed(msgspec.Struct, eq=False):
    """A running input. `reader` is None while it has no schema; `stopped` has the reason."""

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
    def of(cls, input_: Input, now: float) -> "Feed":
        return cls(input_, Bucket.full(input_.rate_limit, now))

    def take_schema(self, schema: TopicSchema | None, times: Times, missing: str) -> bool:
        """Switches to a schema. Returns whether that changed anything.

        If the input does not fit it, the feed warns and keeps the current schema.
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
                self.warning = f"version {schema.version} of the schema was rejected: {error}"
            return False
        self.reader, self.schema = reader, schema
        self.stopped = self.warning = ""
        self._refused = None
        return True

    def fail(self, error: Exception) -> None:
        """Stops this input after an unexpected error, so that the others continue."""
        self.reader = None
        self._refused = self.schema
        self.stopped = f"reading failed, see the log: {error!r}"

    def lines_allowed(self, now: float) -> int | None:
        """The number of lines that may be read now; None for any number."""
        allowed_lines = self.bucket.lines(now)
        if self._limited_at is not None:
            self.counts.rate_limited_seconds += now - self._limited_at
            self._limited_at = None
        if allowed_lines == 0:
            self._limited_at = now
        return allowed_lines

    def count_cut(self, cut: Cut, path: str, now: float) -> None:
        """Counts a cut of the file at `path`, which was handed on."""
        lines = cut.lines + sum(max(0, excepted.count) for excepted in cut.excepted)
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
            if any(excepted.reason == reason for excepted in cut.excepted):
                self._had_long_line(path, reason, now)

    def _had_long_line(self, path: str, reason: str, now: float) -> None:
        self.counts.cut_lines += self.input.long_lines is LongLines.CUT
        if now >= self._long_line_said_at + _SAID_EVERY:
            self._long_line_said_at = now
            log.warning("%s (max_line_bytes) path=%s", reason, one_line(path))
