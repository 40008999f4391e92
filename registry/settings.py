"""Compatibility levels and modes, of one subject or of all, are set and unset. Pure."""

import msgspec

from registry.contents import Contents
from registry.errors import not_permitted, subject_not_found
from registry.log_records import ClearSubjectRecord, ConfigRecord, ModeRecord, write
from registry.registering import read_only
from registry.requests import ConfigChange
from registry.values import Config, Decision, LogRecord, Mode

_READ_ONLY = {Mode.READONLY, Mode.READONLY_OVERRIDE}


def set_config(contents: Contents, subject: str | None, change: ConfigChange) -> Decision[Config]:
    """What is not given stays as it is; the answer is all that is set then."""
    _check_mode(contents, subject)
    changed = msgspec.structs.replace(contents.own_config(subject) or Config(), **change)
    return Decision((write(ConfigRecord(subject, changed)),), changed)


def unset_config(contents: Contents, subject: str | None) -> Decision[Config]:
    """The answer is what was set."""
    old = contents.config(subject)
    if old is None:
        raise subject_not_found(str(subject))
    _check_mode(contents, subject)
    return Decision((write(ConfigRecord(subject, None)),), old)


def set_mode(contents: Contents, subject: str | None, mode: Mode, *, force: bool) -> Decision[Mode]:
    """Schemas are imported into subjects that have none, unless that is forced."""
    records: list[LogRecord] = []
    if mode is Mode.IMPORT and contents.mode_in_scope(subject) is not mode and not force:
        names = contents.subjects() if subject is None else [subject]
        if any(contents.has_subject(name) for name in names):
            raise not_permitted("Cannot import since found existing subjects")
        records.append(write(ClearSubjectRecord(subject)))
    return Decision((*records, write(ModeRecord(subject, mode))), mode)


def unset_mode(contents: Contents, subject: str | None) -> Decision[Mode]:
    """The answer is what was set."""
    old = contents.mode(subject)
    if old is None:
        raise subject_not_found(str(subject))
    return Decision((write(ModeRecord(subject, None)),), old)


def _check_mode(contents: Contents, subject: str | None) -> None:
    if contents.mode_in_scope(subject) in _READ_ONLY:
        raise read_only(subject)
