"""The state that the topic's records define up to an offset: subjects, versions, ids, configs and
modes.

A registry that writes has two instances: the readers', which follows the topic, and the writer's,
which is ahead of it by the records that are being published. They do no I/O; each belongs to one
thread.

- A version is immutable; a change replaces it.
- An id has one content forever. A record that contradicts this is logged and skipped.
- Equal contents share an id, across subjects too.
- Subjects with a prefix of `mirrored` belong to another cluster: only its topic defines them, and
  they cannot be written here.
- Ids are assigned in ascending order within a range. The highest assigned id survives the permanent
  deletion of its schema and compaction: Confluent's registry ignores the value of a NOOP record, so
  ours carries the id.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple, Self, TypeVar

from registry.schemas_topic.log_records import (
    BadRecord,
    ClearSubjectRecord,
    ConfigRecord,
    DeleteSubjectRecord,
    ModeRecord,
    NoRecord,
    Record,
    SchemaRecord,
    read,
    write,
)
from registry.schemas_topic.mirrored_records import prefixed
from registry.schemas_topic.values import Config, Level, LogRecord, Mode, SchemaContent, Version

log = logging.getLogger(__name__)

Value = TypeVar("Value")

EVERY_ID: Final = range(1, 2**31)


class VersionKey(NamedTuple):
    subject: str
    version: int


class RegistryContents:
    """The contents of a topic. `offset` is the offset to be read next."""

    def __init__(
        self,
        ids: range = EVERY_ID,
        default_level: Level = Level.BACKWARD,
        mirrored: tuple[str, ...] = (),
    ) -> None:
        self.offset = 0
        self.ids = ids
        self.mirrored = mirrored
        self.left_out = 0  # skipped: the id or subject is taken
        self.highest_id = ids.start - 1
        self.default_level = default_level
        self._subjects: dict[str, dict[int, Version]] = {}  # versions in the order of their numbers
        self._names: list[str] | None = None  # sorted, reset when a subject is added or removed
        self._subjects_of_id: dict[int, dict[str, int]] = {}
        # The last id, if the content was imported with several.
        self._id_of_content: dict[SchemaContent, int] = {}
        self._other_ids: dict[SchemaContent, set[int]] = {}
        self._referrers: dict[VersionKey, set[VersionKey]] = {}
        self._configs: dict[str | None, Config] = {}
        self._modes: dict[str | None, Mode] = {}

    def copy(self) -> Self:
        """Returns an independent copy."""
        copy = type(self)(self.ids, self.default_level, self.mirrored)
        copy.offset = self.offset
        copy.left_out = self.left_out
        copy.highest_id = self.highest_id
        copy._subjects = {name: dict(versions) for name, versions in self._subjects.items()}
        copy._subjects_of_id = {
            key: dict(subjects) for key, subjects in self._subjects_of_id.items()
        }
        copy._id_of_content = dict(self._id_of_content)
        copy._other_ids = {content: set(ids) for content, ids in self._other_ids.items()}
        copy._referrers = {key: set(referrers) for key, referrers in self._referrers.items()}
        copy._configs = dict(self._configs)
        copy._modes = dict(self._modes)
        return copy

    # Records

    def apply(self, offset: int, record: LogRecord) -> None:
        """Applies a record. Invalid ones are logged and skipped."""
        self.offset = offset + 1
        try:
            self.take(read(record))
        except BadRecord as error:
            log.error("record skipped offset=%d why=%r", offset, str(error))

    def apply_mirrored(self, prefix: str, offset: int, record: LogRecord) -> None:
        """Applies a record of the mirrored topic whose subjects have this prefix here."""
        try:
            self.take_mirrored(prefix, read(record))
        except BadRecord as error:
            log.error("record skipped prefix=%r offset=%d why=%r", prefix, offset, str(error))

    def take_mirrored(self, prefix: str, record: Record) -> None:
        local_record = prefixed(record, prefix)
        if isinstance(local_record, ClearSubjectRecord) and local_record.subject is None:
            for name in list(self.subjects(prefix)):
                self._clear(name)
        else:
            self._take(local_record)

    def take(self, record: Record) -> None:
        subject = None if isinstance(record, NoRecord) else record.subject
        if subject is not None and self.is_mirrored(subject):
            self.left_out += 1
            log.error("record skipped: subject belongs to another cluster subject=%r", subject)
        else:
            self._take(record)

    def _take(self, record: Record) -> None:
        match record:
            case SchemaRecord(_, _, Version() as version):
                self._put(version)
            case SchemaRecord(subject, version, None):
                self._remove(VersionKey(subject, version))
            case ConfigRecord(subject, config):
                _set(self._configs, subject, config)
            case ModeRecord(subject, mode):
                _set(self._modes, subject, mode)
            case DeleteSubjectRecord(subject, until):
                self._delete(subject, until)
            case ClearSubjectRecord(subject):
                self._clear(subject)
            case NoRecord(highest_id):
                self._note_id(highest_id)

    def sign_of_life(self) -> LogRecord:
        """Returns a record without effect that carries the highest id."""
        return write(NoRecord(self.highest_id))

    def _put(self, version: Version) -> None:
        content_of_id = self.content_of(version.id)
        if content_of_id is not None and content_of_id != version.content:
            self.left_out += 1
            log.error(
                "schema skipped: its id belongs to another schema subject=%r version=%d id=%d",
                version.subject,
                version.version,
                version.id,
            )
            return
        key = VersionKey(version.subject, version.version)
        self._note_id(version.id)
        if version.subject not in self._subjects:
            self._names = None
        versions = self._subjects.setdefault(version.subject, {})
        old_version = versions.get(version.version)
        is_in_order = (
            old_version is not None or not versions or version.version > next(reversed(versions))
        )
        versions[version.version] = version
        if not is_in_order:  # an imported version with a lower number
            self._subjects[version.subject] = dict(sorted(versions.items()))
        if old_version is not None:
            self._unlink(key, old_version)
        self._subjects_of_id.setdefault(version.id, {})[version.subject] = version.version
        previous_id = self._id_of_content.get(version.content, version.id)
        self._id_of_content[version.content] = version.id
        if previous_id != version.id:
            self._other_ids.setdefault(version.content, set()).add(previous_id)
        for reference in version.references:
            target = VersionKey(reference.subject, reference.version)
            self._referrers.setdefault(target, set()).add(key)

    def _remove(self, key: VersionKey) -> None:
        versions = self._subjects.get(key.subject, {})
        version = versions.pop(key.version, None)
        if version is None:
            return
        if not versions:
            del self._subjects[key.subject]
            self._names = None
        self._unlink(key, version)

    def _unlink(self, key: VersionKey, version: Version) -> None:
        """Remove the index entries of a version that was removed or replaced."""
        subjects = self._subjects_of_id[version.id]
        if subjects.get(key.subject) == key.version:
            del subjects[key.subject]
            versions = self._subjects.get(key.subject, {})
            for number in reversed(versions):
                if versions[number].id == version.id:
                    subjects[key.subject] = number
                    break
        if not subjects:
            del self._subjects_of_id[version.id]
            self._forget_id(version.content, version.id)
        for reference in version.references:
            target = VersionKey(reference.subject, reference.version)
            self._referrers[target].discard(key)

    def _forget_id(self, content: SchemaContent, schema_id: int) -> None:
        other_ids = self._other_ids.get(content, set())
        other_ids.discard(schema_id)
        if self._id_of_content.get(content) == schema_id:
            if other_ids:
                self._id_of_content[content] = other_ids.pop()
            else:
                del self._id_of_content[content]
        if not other_ids:
            self._other_ids.pop(content, None)

    def _delete(self, subject: str, until: int) -> None:
        versions = self._subjects.get(subject, {})
        for number, version in versions.items():
            if number <= until:
                versions[number] = version.as_deleted()

    def _clear(self, subject: str | None) -> None:
        for name in self.own_subjects() if subject is None else [subject]:
            for version in self.versions(name, deleted=True):
                if version.deleted:
                    self._remove(VersionKey(name, version.version))

    def _note_id(self, schema_id: int) -> None:
        if schema_id in self.ids:
            self.highest_id = max(self.highest_id, schema_id)

    # Queries

    def subjects(self, prefix: str = "") -> Iterator[str]:
        """Returns the subjects with this prefix in order, including those whose versions are all
        deleted."""
        if self._names is None:
            self._names = sorted(self._subjects)
        names = self._names
        for position in range(bisect_left(names, prefix), len(names)):
            if not names[position].startswith(prefix):
                return
            yield names[position]

    def own_subjects(self) -> list[str]:
        """Returns the subjects that are written here, as opposed to mirrored ones."""
        return [name for name in self.subjects() if not self.is_mirrored(name)]

    def is_mirrored(self, subject: str) -> bool:
        """Whether the subject belongs to another cluster."""
        return bool(self.mirrored) and subject.startswith(self.mirrored)

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        """Whether the subject has a version; with `deleted`, deleted versions count too."""
        versions = self._subjects.get(subject, {})
        return bool(versions) if deleted else any(not v.deleted for v in versions.values())

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Returns the versions in order; with `deleted`, including the deleted ones."""
        versions = self._subjects.get(subject, {}).values()
        return [version for version in versions if deleted or not version.deleted]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version | None:
        version = self._subjects.get(subject, {}).get(number)
        return version if version is not None and (deleted or not version.deleted) else None

    def latest(self, subject: str) -> Version | None:
        versions = reversed(self._subjects.get(subject, {}).values())
        return next((version for version in versions if not version.deleted), None)

    def with_id(self, schema_id: int, subject: str | None = None) -> Version | None:
        """Returns a version with this id, deleted or not, in `subject` if given."""
        subjects = self._subjects_of_id.get(schema_id)
        if subjects is None:
            return None
        name = next(iter(subjects)) if subject is None else subject
        return self._subjects[name][subjects[name]] if name in subjects else None

    def content_of(self, schema_id: int) -> SchemaContent | None:
        version = self.with_id(schema_id)
        return None if version is None else version.content

    def id_of(self, content: SchemaContent) -> int | None:
        return self._id_of_content.get(content)

    def versions_with_id(self, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """Returns for each subject the last version with this id."""
        subjects = self._subjects_of_id.get(schema_id, {})
        versions = [self._subjects[name][subjects[name]] for name in sorted(subjects)]
        return [version for version in versions if deleted or not version.deleted]

    def referrers(self, key: VersionKey, *, deleted: bool = False) -> list[Version]:
        """Returns the versions that refer to this one."""
        versions = [self._subjects[name][number] for name, number in self._referrers.get(key, ())]
        return [version for version in versions if deleted or not version.deleted]

    def next_id(self) -> int | None:
        """Returns the next id to assign, or None if the range is exhausted."""
        schema_id = max(self.highest_id + 1, self.ids.start)
        return schema_id if schema_id in self.ids else None

    def own_config(self, subject: str | None) -> Config | None:
        """Returns the config that is set for the subject; for None, the global one."""
        return self._configs.get(subject)

    def config(self, subject: str | None) -> Config | None:
        """Returns the config of a subject, like `own_config`. The global config always exists."""
        config = self._configs.get(subject)
        if config is None and subject is None:
            return Config(compatibility_level=self.default_level)
        return config

    def config_of_all(self, subject: str | None) -> Config | None:
        """Returns the config that applies to a subject without its own."""
        if subject is not None and self.is_mirrored(subject):
            return self._configs.get(next(filter(subject.startswith, self.mirrored)))
        return self.config(None)

    def mode(self, subject: str | None) -> Mode | None:
        """Returns the mode that is set for the subject; for None, the global one."""
        if subject is not None and self.is_mirrored(subject):
            return Mode.READONLY
        mode = self._modes.get(subject)
        return Mode.READWRITE if mode is None and subject is None else mode

    def mode_in_scope(self, subject: str | None) -> Mode:
        global_mode = self._modes.get(None, Mode.READWRITE)
        if global_mode is Mode.READONLY_OVERRIDE:
            return global_mode
        if subject is not None and self.is_mirrored(subject):
            return Mode.READONLY
        return self._modes.get(subject, global_mode)

    def __len__(self) -> int:
        """Number of versions, including deleted ones."""
        return sum(map(len, self._subjects.values()))


def _set(entries: dict[str | None, Value], subject: str | None, value: Value | None) -> None:
    if value is None:
        entries.pop(subject, None)
    else:
        entries[subject] = value
