"""What a record of another cluster's registry says here, where its subjects have a prefix. Pure.

Its ids are kept, and nothing else of it speaks of more than its own subjects: settings of all of
them are kept under the prefix alone, its modes do not count, since what is mirrored is only read.
"""

import msgspec

from registry.log_records import (
    ClearSubjectRecord,
    ConfigRecord,
    DeleteSubjectRecord,
    ModeRecord,
    NoRecord,
    Record,
    SchemaRecord,
)
from registry.values import Reference, Version


def prefixed(record: Record, prefix: str) -> Record:
    """The same, of the subjects that begin with `prefix`."""
    match record:
        case SchemaRecord(subject, number, version):
            moved = None if version is None else _version(version, prefix)
            return SchemaRecord(prefix + subject, number, moved)
        case ConfigRecord(subject, config):
            return ConfigRecord(prefix + (subject or ""), config)
        case DeleteSubjectRecord(subject, until):
            return DeleteSubjectRecord(prefix + subject, until)
        case ClearSubjectRecord(subject):
            # All of them, the contents know.
            return record if subject is None else ClearSubjectRecord(prefix + subject)
        case ModeRecord() | NoRecord():
            return NoRecord()


def _version(version: Version, prefix: str) -> Version:
    references = tuple(
        Reference(each.name, prefix + each.subject, each.version) for each in version.references
    )
    return msgspec.structs.replace(version, subject=prefix + version.subject, references=references)
