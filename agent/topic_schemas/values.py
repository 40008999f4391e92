"""Which schemas an agent needs, and those that it has."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from agent.config_inputs import Format, Input
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC
from schemas.event_schemas import DEAD_LETTER, LEDGER, LOG_LINE, SYSLOG_LINE
from schemas.parsing import AvroSchema


class Purpose(StrEnum):
    """What is written with a schema. The words stand in the cache."""

    LINES = "lines"  # plain text, as penstock.LogLine
    FIELDS = "fields"  # lines that have fields, as the topic's own schema says
    EITHER = "either"  # as the topic's own schema says; as penstock.LogLine if it has none
    SYSLOG = "syslog"  # the same; as penstock.SyslogLine if it has none
    DEAD_LETTERS = "dead_letters"
    LEDGER = "ledger"


BUILT_IN_FOR: Final = {
    Purpose.LINES: LOG_LINE,
    Purpose.EITHER: LOG_LINE,
    Purpose.SYSLOG: SYSLOG_LINE,
    Purpose.DEAD_LETTERS: DEAD_LETTER,
    Purpose.LEDGER: LEDGER,
}

# What these have beside a message is dropped where it goes to penstock.LogLine.
_HAVE_A_MESSAGE: Final = {
    Format.CRI: Purpose.EITHER,
    Format.DOCKER: Purpose.EITHER,
    Format.SYSLOG: Purpose.SYSLOG,
}


class Wanted(msgspec.Struct, frozen=True):
    """A topic, and what is to be written there."""

    topic: str
    purpose: Purpose

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    @property
    def may_change(self) -> bool:
        """Whether a new version is to be taken up. What comes with Penstock has its id for ever."""
        return self.purpose in {Purpose.FIELDS, Purpose.EITHER, Purpose.SYSLOG}


class TopicSchema(msgspec.Struct, frozen=True):
    """What a topic's events are written with. The id means this schema for ever."""

    topic: str
    id: int
    version: int
    schema: AvroSchema


def wanted_for(each: Input) -> Wanted:
    """What the events of an input are written with."""
    if each.format is Format.PLAIN:
        return Wanted(each.topic, Purpose.LINES)
    if each.format in _HAVE_A_MESSAGE and not each.schema:
        return Wanted(each.topic, _HAVE_A_MESSAGE[each.format])
    return Wanted(each.topic, Purpose.FIELDS)


def dead_letters_of(topic: str) -> Wanted:
    return Wanted(topic + DEAD_SUFFIX, Purpose.DEAD_LETTERS)


THE_LEDGERS = Wanted(LEDGER_TOPIC, Purpose.LEDGER)


def wanted_by(inputs: Iterable[Input], *, ledger: bool = True) -> dict[Wanted, tuple[str, ...]]:
    """All that these inputs need, each with the files that may be registered for it."""
    found: dict[Wanted, tuple[str, ...]] = {}
    for each in inputs:
        wanted = wanted_for(each)
        files = found.get(wanted, ())
        mine = (each.schema,) if each.schema and each.schema not in files else ()
        found[wanted] = files + mine
        found[dead_letters_of(each.topic)] = ()
    if ledger:
        found[THE_LEDGERS] = ()
    return found
