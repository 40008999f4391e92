"""Decides which entries of the journal an input reads, and makes its lines of them. Pure.

All entries are read and compared here, rather than by journalctl, since only then are their numbers
without gaps: see `numbering`.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

from agent.configuration.system_journal import Priority, SystemJournal
from agent.encoding.lines.journal_lines import MOST_FIELD_BYTES, line_of
from agent.system_journal.export_format import REALTIME, Entry, number_in

_MESSAGE: Final = b"MESSAGE"
_PRIORITY: Final = b"PRIORITY"
_IDENTIFIER: Final = b"SYSLOG_IDENTIFIER"
_UNIT: Final = b"_SYSTEMD_UNIT"
_PID: Final = b"_PID"
_SOURCE_TIME: Final = b"_SOURCE_REALTIME_TIMESTAMP"
_UNIT_OF_SYSTEMD: Final = b"UNIT"  # of a message of systemd itself, about that unit
_UNIT_OF_OTHERS: Final = b"OBJECT_SYSTEMD_UNIT"  # of a message of root, about that unit
_UID: Final = b"_UID"
MACHINE: Final = b"_MACHINE_ID"
_PRIORITIES: Final = tuple(Priority)


class Selection:
    """The entries that a journal input reads."""

    def __init__(self, journal: SystemJournal, most_message_bytes: int) -> None:
        patterns = "|".join(translate(unit) for unit in journal.unit_patterns)
        self._units = re.compile(patterns.encode()) if patterns else None
        self._identifiers = frozenset(name.encode() for name in journal.identifiers)
        self._priorities = frozenset(
            b"%d" % _PRIORITIES.index(priority) for priority in journal.priorities
        )
        self._fields = tuple(
            (name.encode(), entry_field.encode()) for name, entry_field in journal.fields.items()
        )
        self._most = most_message_bytes
        self.wanted = frozenset(
            {
                *(_MESSAGE, _PRIORITY, _IDENTIFIER, _UNIT, _PID, _SOURCE_TIME),
                *(_UNIT_OF_SYSTEMD, _UNIT_OF_OTHERS, _UID, MACHINE),
                *(entry_field for _, entry_field in self._fields),
            }
        )

    def has(self, entry: Entry) -> bool:
        fields = entry.fields
        if self._identifiers and fields.get(_IDENTIFIER) not in self._identifiers:
            return False
        if self._priorities and fields.get(_PRIORITY) not in self._priorities:
            return False
        units = self._units
        return units is None or any(units.match(unit) for unit in _units_of(fields))

    def line(self, entry: Entry) -> bytes:
        fields = entry.fields
        message = fields.get(_MESSAGE, b"")
        values = ((name, fields.get(entry_field)) for name, entry_field in self._fields)
        micros = number_in(fields.get(_SOURCE_TIME, b"")) or entry.micros
        return line_of(
            message[: self._most],
            {name: value[:MOST_FIELD_BYTES] for name, value in values if value is not None},
            micros=micros,
            stream=b"%b/%b" % (fields.get(_UNIT, b"")[:256], fields.get(_PID, b"")[:20]),
            cursor=entry.cursor,
            is_cut=_MESSAGE in entry.cut or len(message) > self._most,
        )


def _units_of(fields: dict[bytes, bytes]) -> Iterable[bytes]:
    """The units that an entry is of or about, as `journalctl --unit` finds them."""
    if unit := fields.get(_UNIT):
        yield unit
    if fields.get(_PID) == b"1" and (unit := fields.get(_UNIT_OF_SYSTEMD)):
        yield unit
    if fields.get(_UID) == b"0" and (unit := fields.get(_UNIT_OF_OTHERS)):
        yield unit


ALWAYS_WRITTEN: Final = frozenset({REALTIME, b"__CURSOR", b"__MONOTONIC_TIMESTAMP", b"_BOOT_ID"})
"""Fields that journalctl writes whatever `--output-fields` says, and does not accept there."""
