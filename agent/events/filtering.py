"""Which events are shipped.

The filters are gone through in their order, and the first that applies decides: `drop` that is
found drops, `keep` that is found ships, `sample` ships one line in so many. Where none applies, an
event is shipped, unless there is a `keep`: what matches none of them is dropped.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.config import Filter
from agent.events.fields import looked_up, text_of
from agent.events.patterns import is_found


@dataclass(frozen=True, slots=True)
class _Rule:
    reason: str
    field: str
    pattern: re.Pattern[str] | None
    drops: bool
    sample: int


class Filters:
    def __init__(self, filters: Sequence[Filter]) -> None:
        self._rules = [
            _Rule(
                reason=_name(each),
                field=each.field,
                pattern=re.compile(found)
                if (found := each.drop or each.keep or each.match)
                else None,
                drops=bool(each.drop),
                sample=each.sample,
            )
            for each in filters
        ]
        kept = [_name(each) for each in filters if each.keep]
        self._otherwise = ", ".join(kept)[:200] or None

    def __bool__(self) -> bool:
        return bool(self._rules)

    def dropped_by(self, line: bytes, text: str, value: Mapping[str, Any]) -> str | None:
        """The filter that drops it; None if it is shipped. `line` is `text` as UTF-8."""
        for rule in self._rules:
            if rule.pattern is not None:
                subject = text
                if rule.field:
                    found = looked_up(value, rule.field)
                    if found is None:
                        continue
                    subject = text_of(found)
                if not is_found(rule.pattern, subject):
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
