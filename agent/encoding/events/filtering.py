"""Filters events by the input's rules.

The first filter that applies decides: a `drop` that matches drops the event, a `keep` that matches
ships it, `sample` ships one line in so many. If none applies, an event is shipped, or dropped if
there is a `keep`.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.configuration.lines import Filter
from agent.encoding.events.fields import looked_up, text_of
from agent.encoding.lines.patterns import is_found


class _Rule(msgspec.Struct, frozen=True):
    reason: str
    field: str
    pattern: re.Pattern[str] | None
    drops: bool
    sample: int


class Filters:
    def __init__(self, filters: Sequence[Filter], *, whole_lines: bool = False) -> None:
        """`whole_lines`: lines have no fields; every pattern searches the whole line."""
        self._rules = [
            _Rule(
                reason=_name(config),
                field="" if whole_lines else config.field,
                pattern=re.compile(pattern)
                if (pattern := config.drop or config.keep or config.match)
                else None,
                drops=bool(config.drop),
                sample=config.sample,
            )
            for config in filters
        ]
        kept_names = [_name(filter_) for filter_ in filters if filter_.keep]
        self._otherwise = ", ".join(kept_names)[:200] or None

    def __bool__(self) -> bool:
        return bool(self._rules)

    def dropped_by(self, line: bytes, value: Mapping[str, Any]) -> str | None:
        """The filter that drops the event; None if it is shipped. `line` is UTF-8."""
        text: str | None = None
        for rule in self._rules:
            if rule.pattern is not None:
                if rule.field:
                    field = looked_up(value, rule.field)
                    if field is None or not is_found(rule.pattern, text_of(field)):
                        continue
                else:
                    if text is None:
                        text = line.decode()
                    if not is_found(rule.pattern, text):
                        continue
            if rule.sample:
                return rule.reason if zlib.crc32(line) % rule.sample else None
            return rule.reason if rule.drops else None
        return self._otherwise


def _name(filter_: Filter) -> str:
    if filter_.name:
        return filter_.name
    if filter_.sample:
        return f"sample: {filter_.sample}"
    return f"drop: {filter_.drop}" if filter_.drop else f"keep: {filter_.keep}"
