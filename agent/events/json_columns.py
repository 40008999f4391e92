"""JSON lines become events many at once, column by column (`agent.batches.json_tails`).

The outcome is that of `making.OneByOne`; unknown fields cannot be kept on this way.
"""

from collections.abc import Sequence
from typing import cast

from agent.batches.json_tails import JsonTails, Tails
from agent.events.faults import Fault
from agent.events.fields import Fields
from agent.events.formats.json_lines import fields_of_json
from agent.events.making import EMPTY, Made, Rules


class JsonColumns:
    """JSON, many lines at once."""

    def __init__(self, tails: JsonTails, names: Sequence[str], added: Fields, rules: Rules) -> None:
        """`names` are the fields that `tails` takes out for the time, the filters and the key."""
        self._tails = tails
        self._names = names
        self._added = added
        self._rules = rules

    def __call__(self, bodies: Sequence[bytes], made: Made) -> None:
        rules, now = self._rules, made.now
        made.timeless = rules.when is None
        tails = self._tails.encode(bodies)
        if not tails.refused and not rules.filters and not rules.key and self._quickly(tails, made):
            return
        for at, body in enumerate(tails.bodies):
            refused = None if body is not None else self._fault(bodies[at], tails.refused[at])
            if refused is not None and refused.kind == "format":
                if not bodies[at] or bodies[at].isspace():
                    made.drop(at, EMPTY)
                else:
                    made.bury(at, refused)
                continue
            value = {
                name: found
                for name, column in zip(self._names, tails.taken, strict=True)
                if (found := column[at]) is not None
            }
            value.update(self._added)
            try:
                time = rules.time(value, now)
            except Fault as fault:
                made.bury(at, fault)
                continue
            if rules.filters:
                reason = rules.filters.dropped_by(bodies[at], value)
                if reason is not None:
                    made.drop(at, reason)
                    continue
            if refused is not None:
                made.bury(at, refused, time)
                continue
            assert body is not None
            made.event(at, time, body)
            if rules.key:
                made.keys.append(rules.key_of(value))

    def _quickly(self, tails: Tails, made: Made) -> bool:
        """Where every line is an event. False: there may be one whose time cannot be read."""
        when = self._rules.when
        times = [made.now] * len(tails.bodies)
        if when is not None:
            read, now = when.read, made.now
            column = tails.taken[self._names.index(when.field)]
            try:
                times = [read(value, now) for value in column]
            except Fault:
                return False
        made.all_events(times, cast("list[bytes]", tails.bodies))
        return True

    @staticmethod
    def _fault(line: bytes, reason: str) -> Fault:
        try:
            fields_of_json(line)
        except Fault as fault:
            return fault
        return Fault("schema", reason)
