"""The schemas that an agent needs, and those that it knows, as values."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from agent.configuration.inputs import Format, Input
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC
from schemas.event_schemas import (
    ACCESS_LINE,
    DEAD_LETTER,
    HAPROXY_LINE,
    LEDGER,
    LOG_LINE,
    POSTGRESQL_LINE,
    SYSLOG_LINE,
)
from schemas.parsing import AvroSchema


class Purpose(StrEnum):
    """The purpose of a schema. Stored in the cache."""

    LINES = "lines"  # plain text, as penstock.LogLine
    FIELDS = "fields"  # lines with fields, by the topic's own schema
    EITHER = "either"  # by the topic's own schema; as penstock.LogLine if it has none
    # By the topic's own schema; as penstock.SyslogLine and so on if it has none.
    SYSLOG = "syslog"
    ACCESS = "access"
    HAPROXY = "haproxy"
    POSTGRESQL = "postgresql"
    DEAD_LETTERS = "dead_letters"
    LEDGER = "ledger"


BUILT_IN_FOR: Final = {
    Purpose.LINES: LOG_LINE,
    Purpose.EITHER: LOG_LINE,
    Purpose.SYSLOG: SYSLOG_LINE,
    Purpose.ACCESS: ACCESS_LINE,
    Purpose.HAPROXY: HAPROXY_LINE,
    Purpose.POSTGRESQL: POSTGRESQL_LINE,
    Purpose.DEAD_LETTERS: DEAD_LETTER,
    Purpose.LEDGER: LEDGER,
}

# The other formats need a schema of the topic.
_HAVE_A_SCHEMA: Final = {
    Format.PLAIN: Purpose.LINES,
    Format.CRI: Purpose.EITHER,
    Format.DOCKER: Purpose.EITHER,
    Format.SYSLOG: Purpose.SYSLOG,
    Format.NGINX: Purpose.ACCESS,
    Format.APACHE: Purpose.ACCESS,
    Format.HAPROXY: Purpose.HAPROXY,
    Format.POSTGRESQL: Purpose.POSTGRESQL,
}


class TopicPurpose(msgspec.Struct, frozen=True):
    """A topic, and the purpose of its schema."""

    topic: str
    purpose: Purpose

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    @property
    def may_change(self) -> bool:
        """Whether to look for new versions. Penstock's own schemas never change their ids."""
        return self.purpose not in {Purpose.LINES, Purpose.DEAD_LETTERS, Purpose.LEDGER}


class TopicSchema(msgspec.Struct, frozen=True):
    """The schema with which a topic's events are written. Its id never changes."""

    topic: str
    id: int
    version: int
    schema: AvroSchema


def wanted_for(input_: Input) -> TopicPurpose:
    """The schema that the events of an input need."""
    if input_.schema and not input_.is_plain:
        return TopicPurpose(input_.topic, Purpose.FIELDS)
    if input_.format is Format.PLAIN and not input_.is_plain:
        return TopicPurpose(input_.topic, Purpose.EITHER)
    return TopicPurpose(input_.topic, _HAVE_A_SCHEMA.get(input_.format, Purpose.FIELDS))


def dead_letters_of(topic: str) -> TopicPurpose:
    return TopicPurpose(topic + DEAD_SUFFIX, Purpose.DEAD_LETTERS)


LEDGER_SCHEMA = TopicPurpose(LEDGER_TOPIC, Purpose.LEDGER)


def wanted_by(
    inputs: Iterable[Input], *, ledger: bool = True
) -> dict[TopicPurpose, tuple[str, ...]]:
    """The schemas that inputs need, with the files that may be registered for them."""
    files_by_purpose: dict[TopicPurpose, tuple[str, ...]] = {}
    for input_ in inputs:
        purpose = wanted_for(input_)
        files = files_by_purpose.get(purpose, ())
        new_files = (input_.schema,) if input_.schema and input_.schema not in files else ()
        files_by_purpose[purpose] = files + new_files
        files_by_purpose[dead_letters_of(input_.topic)] = ()
    if ledger:
        files_by_purpose[LEDGER_SCHEMA] = ()
    return files_by_purpose
