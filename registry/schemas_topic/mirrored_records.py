"""Translates records of another cluster's registry to subjects with a prefix. Pure.

Ids are kept. Its global config becomes the config of the bare prefix. Its modes are dropped, since
mirrored subjects are always read-only.
"""

import msgspec

from registry.schemas_topic.log_records import (
    ClearSubjectRecord,
    ConfigRecord,
    DeleteSubjectRecord,
    ModeRecord,
    NoRecord,
    Record,
    SchemaRecord,
)
from registry.schemas_topic.values import Reference, Version


def prefixed(record: Record, prefix: str) -> Record:
    """Returns the record with the prefix added to its subject."""
    match record:
        case SchemaRecord(subject, number, version):
            local_version = None if version is None else _version(version, prefix)
            return SchemaRecord(prefix + subject, number, local_version)
        case ConfigRecord(subject, config):
            return ConfigRecord(prefix + (subject or ""), config)
        case DeleteSubjectRecord(subject, until):
            return DeleteSubjectRecord(prefix + subject, until)
        case ClearSubjectRecord(subject):
            # `RegistryContents` clears all subjects with the prefix.
            return record if subject is None else ClearSubjectRecord(prefix + subject)
        case ModeRecord() | NoRecord():
            return NoRecord()


def _version(version: Version, prefix: str) -> Version:
    references = tuple(
        Reference(reference.name, prefix + reference.subject, reference.version)
        for reference in version.references
    )
    return msgspec.structs.replace(version, subject=prefix + version.subject, references=references)
