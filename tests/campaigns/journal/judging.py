"""What is wrong with a run, by the entries that were written, the events in the topic, and what the
agent stated. Pure, and without anything of Penstock's.

    unnamed       an entry is not in the topic, and no statement covers it
    double        an entry is in the topic twice
    changed       an event is none of the entries, or not what was written
    disordered    an entry came before one that was written earlier
    false loss    an entry is stated as gone by its number, and is in the topic

A statement covers entries by their numbers; if it has none, those between its times. Before systemd
254 there are no numbers, and a damaged file is noticed only if journalctl reports it: an entry that
was in such a file is counted as `in damaged files` instead.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tests.campaigns.outcomes import Objection

_NUMBERS: Final = re.compile(r"\(numbers? ([0-9,]+)(?: to ([0-9,]+))?\)")
_SHOWN: Final = 5


class Written(msgspec.Struct, frozen=True):
    """An entry, as journalctl showed it once it was written. `number`: systemd's, or 0."""

    message: str  # begins with "INDEX "; of binary ones there is no more
    number: int = 0
    micros: int = 0
    damaged: bool = False  # its file was cut later

    def is_shown_by(self, message: str) -> bool:
        is_binary = self.message.endswith(" ")
        return message.startswith(self.message) if is_binary else message == self.message


class Statement(msgspec.Struct, frozen=True):
    since_millis: int
    until_millis: int
    reason: str

    @property
    def numbers(self) -> range | None:
        if (match := _NUMBERS.search(self.reason)) is None:
            return None
        first, last = match[1], match[2] or match[1]
        return range(int(first.replace(",", "")), int(last.replace(",", "")) + 1)

    def covers(self, entry: Written) -> bool:
        if self.numbers is not None:
            return entry.number in self.numbers
        return self.since_millis <= entry.micros // 1000 <= self.until_millis


class End(msgspec.Struct, frozen=True, kw_only=True):
    written: Sequence[Written]  # by index
    messages: Sequence[str]  # of the topic
    statements: Sequence[Statement]

    @property
    def indexes(self) -> list[int]:
        """Those of the entries in the topic, in its order."""
        return [int(message.partition(" ")[0]) for message in self.messages]

    def lost(self) -> list[int]:
        return sorted(set(range(len(self.written))).difference(self.indexes))

    def named(self) -> list[int]:
        return [index for index in self.lost() if self._is_named(self.written[index])]

    def in_damaged_files(self) -> list[int]:
        """Lost without a statement, which earlier releases of systemd do not rule out."""
        lost = set(self.lost()).difference(self.named())
        damaged = {index for index in lost if self.written[index].damaged}
        return sorted(index for index in damaged if not self.written[index].number)

    def needless(self) -> list[Statement]:
        """Statements that cover no lost entry. Some are right: entries that the input does not
        select were lost, or nothing can be known."""
        lost = [self.written[index] for index in self.lost()]
        return [each for each in self.statements if not any(map(each.covers, lost))]

    def _is_named(self, entry: Written) -> bool:
        return any(statement.covers(entry) for statement in self.statements)


def judge(end: End) -> Iterator[Objection]:
    known = {str(index) for index in range(len(end.written))}
    if strange := [each[:60] for each in end.messages if each.partition(" ")[0] not in known]:
        yield Objection("changed", f"events that are no entries: {strange[:_SHOWN]}")
        return
    indexes = end.indexes
    unnamed = set(end.lost()).difference(end.named(), end.in_damaged_files())
    double = [index for index, count in Counter(indexes).items() if count > 1]
    changed = [
        index
        for index, message in zip(indexes, end.messages, strict=True)
        if not end.written[index].is_shown_by(message)
    ]
    back = [later for earlier, later in itertools.pairwise(indexes) if later < earlier]
    gone = [each.numbers for each in end.statements if each.numbers is not None]
    false = [i for i in indexes if any(end.written[i].number in numbers for numbers in gone)]
    rules = {"unnamed": unnamed, "double": double, "changed": changed}
    for rule, wrong in {**rules, "disordered": back, "false loss": false}.items():
        if wrong:
            yield Objection(rule, f"{len(wrong)} entries: {sorted(wrong)[:_SHOWN]}")
