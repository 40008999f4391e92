"""Deletion of versions and subjects: first softly, then permanently. Pure.

A soft delete hides a schema from lookups and compatibility checks; its id still decodes the data
that was written with it. A version that another schema refers to cannot be deleted.
"""

from registry.changes.modes import check_writable
from registry.errors import (
    still_referenced,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from registry.schemas_topic.contents import RegistryContents, VersionKey
from registry.schemas_topic.log_records import (
    ConfigRecord,
    DeleteSubjectRecord,
    ModeRecord,
    Record,
    SchemaRecord,
    write,
)
from registry.schemas_topic.values import Decision, LogRecord, Version


def delete_version(
    contents: RegistryContents, subject: str, number: int | None, *, permanent: bool
) -> Decision[int]:
    """Deletes one version; for None, the latest one. Answers with its number."""
    version = _version_to_delete(contents, subject, number, permanent=permanent)
    check_writable(contents, subject)
    key = VersionKey(subject, version.version)
    if contents.referrers(key, deleted=permanent):
        raise referenced(key)
    if not permanent:
        deleted_version = version.as_deleted()
        return Decision((write(SchemaRecord(*key, deleted_version)),), version.version)
    if not version.deleted:
        raise version_not_soft_deleted(subject, version.version)
    records: list[Record] = [SchemaRecord(*key, None)]
    if len(contents.versions(subject, deleted=True)) == 1:
        records += _settings(contents, subject)
    return Decision(for_ever(contents, records), version.version)


def delete_subject(
    contents: RegistryContents, subject: str, *, permanent: bool
) -> Decision[list[int]]:
    """Deletes all versions. Answers with their numbers."""
    if not contents.has_subject(subject, deleted=True):
        raise subject_not_found(subject)
    if not permanent and not contents.has_subject(subject):
        raise subject_soft_deleted(subject)
    check_writable(contents, subject)
    versions = contents.versions(subject, deleted=permanent)
    for version in versions:
        key = VersionKey(subject, version.version)
        if any(
            referrer.subject != subject for referrer in contents.referrers(key, deleted=permanent)
        ):
            raise referenced(key)
        if permanent and not version.deleted:
            raise subject_not_soft_deleted(subject)
    version_numbers = [version.version for version in versions]
    if not permanent:
        return Decision(
            (write(DeleteSubjectRecord(subject, version_numbers[-1])),), version_numbers
        )
    # In descending order, since a later version may refer to an earlier one.
    records: list[Record] = [
        SchemaRecord(subject, version_number, None) for version_number in reversed(version_numbers)
    ]
    return Decision(for_ever(contents, records + _settings(contents, subject)), version_numbers)


def _version_to_delete(
    contents: RegistryContents, subject: str, number: int | None, *, permanent: bool
) -> Version:
    if number is None:
        version = contents.latest(subject)
    else:
        version = contents.version(subject, number, deleted=True)
        if version is not None and version.deleted and not permanent:
            raise version_soft_deleted(subject, str(number))
    if version is None:
        if not contents.has_subject(subject, deleted=True):
            raise subject_not_found(subject)
        raise version_not_found(-1 if number is None else number)
    return version


def referenced(key: VersionKey) -> Exception:
    return still_referenced(
        "One or more references exist to the schema "
        f"{{magic=1,keytype=SCHEMA,subject={key.subject},version={key.version}}}."
    )


def _settings(contents: RegistryContents, subject: str) -> list[Record]:
    """The records that remove the mode and config of a deleted subject."""
    records: list[Record] = []
    if contents.mode(subject) is not None:
        records.append(ModeRecord(subject, None))
    if contents.config(subject) is not None:
        records.append(ConfigRecord(subject, None))
    return records


def for_ever(contents: RegistryContents, records: list[Record]) -> tuple[LogRecord, ...]:
    """Encodes the records of a permanent deletion, and one that carries the highest id, which
    compaction would otherwise lose with its schema."""
    return (*map(write, records), contents.sign_of_life())
