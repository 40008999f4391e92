"""Sets and unsets compatibility levels and modes, of one subject or globally. Pure."""

import msgspec

from registry.changes.deletion import for_ever, referenced
from registry.changes.modes import check_writable
from registry.errors import not_permitted, subject_not_found
from registry.requests import ConfigChange
from registry.schemas_topic.contents import RegistryContents, VersionKey
from registry.schemas_topic.log_records import (
    ClearSubjectRecord,
    ConfigRecord,
    ModeRecord,
    Record,
    SchemaRecord,
    write,
)
from registry.schemas_topic.values import Config, Decision, Mode


def set_config(
    contents: RegistryContents, subject: str | None, change: ConfigChange
) -> Decision[Config]:
    """Changes the given settings. Answers with all settings."""
    check_writable(contents, subject)
    new_config = msgspec.structs.replace(contents.own_config(subject) or Config(), **change)
    return Decision((write(ConfigRecord(subject, new_config)),), new_config)


def unset_config(contents: RegistryContents, subject: str | None) -> Decision[Config]:
    """Unsets the config. Answers with the previous one."""
    old_config = contents.config(subject)
    if old_config is None:
        raise subject_not_found(str(subject))
    check_writable(contents, subject)
    return Decision((write(ConfigRecord(subject, None)),), old_config)


def set_mode(
    contents: RegistryContents, subject: str | None, mode: Mode, *, force: bool
) -> Decision[Mode]:
    """Sets the mode. Import mode requires that there are no schemas, unless forced.

    Softly deleted versions are then removed permanently, so that their numbers are free.
    """
    records: list[Record] = []
    if mode is Mode.IMPORT and contents.mode_in_scope(subject) is not mode and not force:
        for name in contents.own_subjects() if subject is None else [subject]:
            records += _removed(contents, name)
        records.append(ClearSubjectRecord(subject))
    records.append(ModeRecord(subject, mode))
    return Decision(for_ever(contents, records), mode)


def _removed(contents: RegistryContents, subject: str) -> list[Record]:
    if contents.has_subject(subject):
        raise not_permitted("Cannot import since found existing subjects")
    keys = [
        VersionKey(subject, version.version) for version in contents.versions(subject, deleted=True)
    ]
    for key in keys:
        if any(referrer.subject != subject for referrer in contents.referrers(key, deleted=True)):
            raise referenced(key)
    return [SchemaRecord(*key, None) for key in reversed(keys)]


def unset_mode(contents: RegistryContents, subject: str | None) -> Decision[Mode]:
    """Unsets the mode. Answers with the previous one."""
    old_mode = contents.mode(subject)
    if old_mode is None:
        raise subject_not_found(str(subject))
    return Decision((write(ModeRecord(subject, None)),), old_mode)
