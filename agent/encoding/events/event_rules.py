"""Turns messages into events or dead letters, or drops them, by one input's rules in these steps:

    parse the fields → add fields → read the time → filter → encode

A message that fails at any step becomes a dead letter with the reason.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

import msgspec

from agent.accounting.alterations import DroppedFields
from agent.accounting.cuts import DeadLine, Events, ExceptedTally
from agent.accounting.runs import Fate
from agent.encoding.events.fields import Fields, looked_up, text_of
from agent.encoding.events.filtering import Filters
from agent.encoding.events.times import Millis
from agent.encoding.lines.encodings import utf8
from agent.encoding.lines.faults import LineFault
from agent.encoding.lines.messages import Messages, Origin

FindFields = Callable[[bytes, Origin | None], Fields]
Encode = Callable[[Fields], bytes]

EMPTY = "empty line"


class When(msgspec.Struct, frozen=True):
    """The field with the time, and its reader. `needed`: a line without the field is rejected."""

    field: str
    read: Millis
    needed: bool = True


class Made(msgspec.Struct):
    """The events, dead letters and counts made so far.

    `raw` returns the bytes of a message for a dead letter. `timeless`: lines have no times.
    """

    messages: Messages
    now: int
    believed: tuple[int, int]
    raw: Callable[[int], bytes]
    tally: ExceptedTally = msgspec.field(default_factory=ExceptedTally)
    times: list[int] = []
    positions: list[int] = []
    bodies: list[bytes] = []
    keys: list[bytes] = []
    dead: list[DeadLine] = []
    dropped: DroppedFields = msgspec.field(default_factory=DroppedFields)
    lines: int = 0
    clamped: int = 0
    timeless: bool = False

    def event(self, at: int, time: int, body: bytes) -> None:
        self.times.append(self._believed(time))
        self.positions.append(self.messages.positions[at])
        self.bodies.append(body)
        self.lines += self.messages.count(at)

    def all_events(self, times: list[int], bodies: list[bytes]) -> None:
        """Makes an event of every message."""
        oldest, newest = self.believed
        if min(times) < oldest or max(times) > newest:
            times = list(map(self._believed, times))
        self.times, self.bodies = times, bodies
        self.positions = self.messages.positions[:-1]
        self.lines = self.messages.lines

    def drop(self, at: int, reason: str) -> None:
        self.tally.add(Fate.FILTERED, reason, self.messages.count(at), self.messages.size(at))

    def bury(self, at: int, fault: LineFault, time: int | None = None) -> None:
        size = self.messages.size(at)
        self.tally.add(Fate.DEAD_LETTERED, fault.kind, self.messages.count(at), size)
        dead_time = self.now if time is None else self._believed(time)
        position = self.messages.positions[at]
        self.dead.append(DeadLine(position, size, self.raw(at), fault.reason, dead_time))

    def events(self) -> Events | None:
        if not self.bodies:
            return None
        times = self.now if self.timeless else self.times
        return Events(times, self.positions, self.bodies, self.keys or None)

    def _believed(self, time: int) -> int:
        oldest, newest = self.believed
        if oldest <= time <= newest:
            return time
        self.clamped += 1
        return min(max(time, oldest), newest)


class Make(Protocol):
    def __call__(self, bodies: Sequence[bytes], made: Made) -> None: ...


class Rules(msgspec.Struct, frozen=True):
    """The rules of an input apart from its format. `key` is the field that selects a partition."""

    filters: Filters
    when: When | None
    key: str

    def time(self, value: Mapping[str, Any], now: int) -> int:
        if self.when is None:
            return now
        field = looked_up(value, self.when.field)
        if field is None and not self.when.needed:
            return now
        if field is None:
            raise LineFault("time", f"no field {self.when.field} with the time")
        try:
            return self.when.read(field, now)
        except LineFault as fault:
            raise LineFault(fault.kind, f"{self.when.field}: {fault}") from None

    def key_of(self, value: Mapping[str, Any]) -> bytes:
        field = looked_up(value, self.key)
        return b"" if field is None else utf8(text_of(field))


class OneByOne:
    """Makes events of any format, one message at a time. `carried`: the fields that events
    contain in some form, so that they are not counted as dropped; None if unknown fields are not
    dropped."""

    def __init__(
        self,
        find: FindFields,
        added: Fields,
        rules: Rules,
        encode: Encode,
        carried: Set[str] | None,
    ) -> None:
        self._find = find
        self._added = added
        self._rules = rules
        self._encode = encode
        self._carried = carried

    def __call__(self, bodies: Sequence[bytes], made: Made) -> None:
        origins = made.messages.origins
        rules, now = self._rules, made.now
        counts_by_names: dict[tuple[str, ...], int] = {}
        made.timeless = rules.when is None
        for index, body in enumerate(bodies):
            origin = origins[index] if origins is not None else None
            time = None
            try:
                value = self._find(body, origin)
                value.update(self._added)
                time = rules.time(value, now)
                if rules.filters:
                    reason = rules.filters.dropped_by(body, value)
                    if reason is not None:
                        made.drop(index, reason)
                        continue
                encoded_event = self._encode(value)
            except LineFault as fault:
                if fault.kind == "format" and (not body or body.isspace()):
                    made.drop(index, EMPTY)
                else:
                    made.bury(index, fault, time)
            except ValueError as error:
                made.bury(index, LineFault("schema", str(error)), time)
            else:
                made.event(index, time, encoded_event)
                names = tuple(value)
                counts_by_names[names] = counts_by_names.get(names, 0) + made.messages.count(index)
                if rules.key:
                    made.keys.append(rules.key_of(value))
        if self._carried is not None:
            for names, count in counts_by_names.items():
                made.dropped.add((name for name in names if name not in self._carried), count)
