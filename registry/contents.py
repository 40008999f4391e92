"""What all records of the topic say, up to one offset: subjects, versions, ids, configs, modes.

Two of these are alive in a registry that writes: the one that readers see, which follows the topic,
and the writer's, which is ahead of it by what is just being written. Neither does any I/O, and each
belongs to one thread.

- A version is immutable; what happens to one replaces it.
- An id means one content for ever. A record that says otherwise is logged and left out.
- Equal contents share an id, also over several subjects.
- Subjects with a prefix of `mirrored` are another cluster's: its topic alone says what they are,
  and nobody writes them here.
- Ids are given upwards within a range, and the highest that was ever given is known even after its
  schema was removed for ever and the topic compacted: Confluent's registry ignores the value of a
  NOOP record, so ours carries it.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple, Self, TypeVar

from registry.log_records import (
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
from registry.mirrored import prefixed
from registry.values import Config, Level, LogRecord, Mode, SchemaContent, Version

log = logging.getLogger(__name__)

Value = TypeVar("Value")

EVERY_ID: Final = range(1, 2**31)


class VersionKey(NamedTuple):
    subject: str
    version: int


class RegistryContents:
    """`offset` is the offset that is to be read next."""

    def __init__(
        self,
        ids: range = EVERY_ID,
        default_level: Level = Level.BACKWARD,
        mirrored: tuple[str, ...] = (),
    ) -> None:
        self.offset = 0
        self.ids = ids
        self.mirrored = mirrored
        self.left_out = 0  # schemas whose id or subject is another's
        self.highest_id = ids.start - 1
        self.default_level = default_level
        self._subjects: dict[str, dict[int, Version]] = {}  # versions in the order of their numbers
        self._names: list[str] | None = None  # sorted, until a subject comes or goes
        self._subjects_of_id: dict[int, dict[str, int]] = {}
        self._id_of_content: dict[
            SchemaContent, int
        ] = {}  # the last one, if it was imported with several
        self._other_ids: dict[SchemaContent, set[int]] = {}
        self._referrers: dict[VersionKey, set[VersionKey]] = {}
        self._configs: dict[str | None, Config] = {}
        self._modes: dict[str | None, Mode] = {}

    def copy(self) -> Self:
        """One that changes independently."""
        copy = type(self)(self.ids, self.default_level, self.mirrored)
        copy.offset = self.offset
        copy.left_out = self.left_out
        copy.highest_id = self.highest_id
        copy._subjects = {name: dict(versions) for name, versions in self._subjects.items()}
        copy._subjects_of_id = {key: dict(found) for key, found in self._subjects_of_id.items()}
        copy._id_of_content = dict(self._id_of_content)
        copy._other_ids = {content: set(found) for content, found in self._other_ids.items()}
        copy._referrers = {key: set(found) for key, found in self._referrers.items()}
        copy._configs = dict(self._configs)
        copy._modes = dict(self._modes)
        return copy

    # What records do.

    def apply(self, offset: int, record: LogRecord) -> None:
        """Take a record in. One that makes no sense is logged and left out."""
        self.offset = offset + 1
        try:
            self.take(read(record))
        except BadRecord as error:
            log.error("record left out offset=%d why=%r", offset, str(error))

    def apply_mirrored(self, prefix: str, offset: int, record: LogRecord) -> None:
        """The same with a record of the topic whose subjects have this prefix here."""
        try:
            self.take_mirrored(prefix, read(record))
        except BadRecord as error:
            log.error("record left out prefix=%r offset=%d why=%r", prefix, offset, str(error))

    def take_mirrored(self, prefix: str, record: Record) -> None:
        moved = prefixed(record, prefix)
        if isinstance(moved, ClearSubjectRecord) and moved.subject is None:
            for name in list(self.subjects(prefix)):
                self._clear(name)
        else:
            self._take(moved)

    def take(self, record: Record) -> None:
        subject = None if isinstance(record, NoRecord) else record.subject
        if subject is not None and self.is_mirrored(subject):
            self.left_out += 1
            log.error("record left out: its subject is another cluster's subject=%r", subject)
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
        """A record that changes nothing and keeps the highest id."""
        return write(NoRecord(self.highest_id))

    def _put(self, version: Version) -> None:
        known = self.content_of(version.id)
        if known is not None and known != version.content:
            self.left_out += 1
            log.error(
                "schema left out: its id is another's subject=%r version=%d id=%d",
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
        old = versions.get(version.version)
        follows = old is not None or not versions or version.version > next(reversed(versions))
        versions[version.version] = version
        if not follows:  # an old number, imported
            self._subjects[version.subject] = dict(sorted(versions.items()))
        if old is not None:
            self._unlink(key, old)
        self._subjects_of_id.setdefault(version.id, {})[version.subject] = version.version
        before = self._id_of_content.get(version.content, version.id)
        self._id_of_content[version.content] = version.id
        if before != version.id:
            self._other_ids.setdefault(version.content, set()).add(before)
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
        """Forget what led to a version that is gone, or is another now."""
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
        others = self._other_ids.get(content, set())
        others.discard(schema_id)
        if self._id_of_content.get(content) == schema_id:
            if others:
                self._id_of_content[content] = others.pop()
            else:
                del self._id_of_content[content]
        if not others:
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

    def _note_id(self, given: int) -> None:
        if given in self.ids:
            self.highest_id = max(self.highest_id, given)

    # What is asked.

    def subjects(self, prefix: str = "") -> Iterator[str]:
        """All names that begin so, in order, also of those whose versions are all deleted."""
        if self._names is None:
            self._names = sorted(self._subjects)
        names = self._names
        for position in range(bisect_left(names, prefix), len(names)):
            if not names[position].startswith(prefix):
                return
            yield names[position]

    def own_subjects(self) -> list[str]:
        """All that are written here."""
        return [name for name in self.subjects() if not self.is_mirrored(name)]

    def is_mirrored(self, subject: str) -> bool:
        """Whether it is another cluster's."""
        return bool(self.mirrored) and subject.startswith(self.mirrored)

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        """Whether it has a version; with `deleted`, a deleted one will do."""
        versions = self._subjects.get(subject, {})
        return bool(versions) if deleted else any(not v.deleted for v in versions.values())

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """In order; with `deleted`, also those."""
        versions = self._subjects.get(subject, {}).values()
        return [version for version in versions if deleted or not version.deleted]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version | None:
        found = self._subjects.get(subject, {}).get(number)
        return found if found is not None and (deleted or not found.deleted) else None

    def latest(self, subject: str) -> Version | None:
        versions = reversed(self._subjects.get(subject, {}).values())
        return next((version for version in versions if not version.deleted), None)

    def with_id(self, schema_id: int, subject: str | None = None) -> Version | None:
        """A version that has this id, deleted or not; in this subject, if one is named."""
        subjects = self._subjects_of_id.get(schema_id)
        if subjects is None:
            return None
        name = next(iter(subjects)) if subject is None else subject
        return self._subjects[name][subjects[name]] if name in subjects else None

    def content_of(self, schema_id: int) -> SchemaContent | None:
        found = self.with_id(schema_id)
        return None if found is None else found.content

    def id_of(self, content: SchemaContent) -> int | None:
        return self._id_of_content.get(content)

    def versions_with_id(self, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """One of each subject that has it: the last."""
        subjects = self._subjects_of_id.get(schema_id, {})
        found = [self._subjects[name][subjects[name]] for name in sorted(subjects)]
        return [version for version in found if deleted or not version.deleted]

    def referrers(self, key: VersionKey, *, deleted: bool = False) -> list[Version]:
        """The versions that refer to this one."""
        found = [self._subjects[name][number] for name, number in self._referrers.get(key, ())]
        return [version for version in found if deleted or not version.deleted]

    def next_id(self) -> int | None:
        """The next one to give; None if the range is used up."""
        given = max(self.highest_id + 1, self.ids.start)
        return given if given in self.ids else None

    def own_config(self, subject: str | None) -> Config | None:
        """What was set, for just this subject or for all."""
        return self._configs.get(subject)

    def config(self, subject: str | None) -> Config | None:
        """The same; there is always one for all."""
        found = self._configs.get(subject)
        if found is None and subject is None:
            return Config(compatibility_level=self.default_level)
        return found

    def config_of_all(self, subject: str | None) -> Config | None:
        """What holds where nothing is set for just this subject."""
        if subject is not None and self.is_mirrored(subject):
            return self._configs.get(next(filter(subject.startswith, self.mirrored)))
        return self.config(None)

    def mode(self, subject: str | None) -> Mode | None:
        """What is set for just this subject, or for all."""
        if subject is not None and self.is_mirrored(subject):
            return Mode.READONLY
        found = self._modes.get(subject)
        return Mode.READWRITE if found is None and subject is None else found

    def mode_in_scope(self, subject: str | None) -> Mode:
        of_all = self._modes.get(None, Mode.READWRITE)
        if of_all is Mode.READONLY_OVERRIDE:
            return of_all
        if subject is not None and self.is_mirrored(subject):
            return Mode.READONLY
        return self._modes.get(subject, of_all)

    def __len__(self) -> int:
        """How many versions there are, deleted ones too."""
        return sum(map(len, self._subjects.values()))


def _set(entries: dict[str | None, Value], subject: str | None, value: Value | None) -> None:
    if value is None:
        entries.pop(subject, None)
    else:
        entries[subject] = value
