"""One input at work: what reads for it, by which schema, and what became of its lines so far."""

from dataclasses import dataclass, field

from agent.config import Input, Times
from agent.errors import InputError
from agent.events.rate import Bucket
from agent.events.reader import Reader
from agent.runs import Fate, Run
from agent.topic_schemas.values import TopicSchema


@dataclass(slots=True)
class Counts:
    """What the journal has taken over of an input, since the start."""

    events: int = 0
    lines: int = 0
    bytes: int = 0
    filtered_lines: int = 0
    dead_lettered_lines: int = 0
    lost_lines: int = 0
    lost_bytes: int = 0
    cut_lines: int = 0
    adjusted_times: int = 0
    rate_limited_seconds: float = 0.0

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
                    self.lost_lines += count
                    self.lost_bytes += max(0, each.bytes)


@dataclass(slots=True, eq=False)
class Feed:
    """`reader` is None as long as there is no schema for it to read by; `stopped` says why."""

    input: Input
    bucket: Bucket
    reader: Reader | None = None
    schema: TopicSchema | None = None
    stopped: str = ""
    warning: str = ""
    counts: Counts = field(default_factory=Counts)
    _refused: TopicSchema | None = None
    _limited_at: float | None = None

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
            reader = Reader(self.input, schema.schema, times)
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

    def lines_allowed(self, now: float) -> int | None:
        """How many lines may be read now; None: any number."""
        allowed = self.bucket.lines(now)
        if self._limited_at is not None:
            self.counts.rate_limited_seconds += now - self._limited_at
            self._limited_at = None
        if allowed == 0:
            self._limited_at = now
        return allowed

    def took(self, lines: int, now: float) -> None:
        self.bucket = self.bucket.taken(lines, now)
