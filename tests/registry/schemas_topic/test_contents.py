"""The fold of the registry's topic, held against a plain model, and what it keeps for ever."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.changes.lookup import Search, content_of, look_up
from registry.changes.registration import register
from registry.changes.settings import set_mode
from registry.errors import ErrorAnswer
from registry.parsed_schemas import sent_schema
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents, VersionKey
from registry.schemas_topic.log_records import (
    ClearSubjectRecord,
    ConfigRecord,
    DeleteSubjectRecord,
    ModeRecord,
    Record,
    SchemaRecord,
    write,
)
from registry.schemas_topic.values import Config, Level, LogRecord, Mode, Reference, Version
from tests.registry.confluents_topic import confluents_records
from tests.registry.drawn_records import SUBJECTS, TEXTS, a_version, records, registered


class Model:
    """All versions in one dict; everything else is worked out from it when it is asked for."""

    def __init__(self) -> None:
        self.versions: dict[tuple[str, int], Version] = {}

    def take(self, record: Record) -> None:
        match record:
            case SchemaRecord(subject, number, None):
                self.versions.pop((subject, number), None)
            case SchemaRecord(subject, number, Version() as version):
                self.versions[subject, number] = version
            case DeleteSubjectRecord(subject, until):
                for key, version in list(self.versions.items()):
                    if key[0] == subject and key[1] <= until:
                        self.versions[key] = version.as_deleted()
            case ClearSubjectRecord(subject):
                for key, version in list(self.versions.items()):
                    if version.deleted and subject in {None, key[0]}:
                        del self.versions[key]


@given(st.lists(records, max_size=40))
def test_it_says_what_a_plain_model_says(taken: list[Record]) -> None:
    contents, model = RegistryContents(), Model()
    for offset, record in enumerate(taken):
        contents.apply(offset, write(record))
        model.take(record)
    check(contents, model)
    check(contents.copy(), model)
    assert contents.offset == len(taken)


def check(contents: RegistryContents, model: Model) -> None:
    assert list(contents.subjects()) == sorted({subject for subject, _ in model.versions})
    assert len(contents) == len(model.versions)
    for subject in SUBJECTS:
        every = [model.versions[key] for key in sorted(model.versions) if key[0] == subject]
        live = [version for version in every if not version.deleted]
        assert contents.versions(subject, deleted=True) == every
        assert contents.versions(subject) == live
        assert contents.latest(subject) == (live[-1] if live else None)
    for schema_id, text in TEXTS.items():
        having = [version for version in model.versions.values() if version.id == schema_id]
        found = contents.versions_with_id(schema_id, deleted=True)
        assert {version.subject for version in found} == {version.subject for version in having}
        assert all(version in having for version in found)
        content = a_version("a", 1, schema_id).content
        assert contents.id_of(content) == (schema_id if having else None)
        assert (contents.with_id(schema_id) is None) == (not having)
        assert found == [] or found[0].text == text


def test_a_copy_goes_its_own_way() -> None:
    contents = RegistryContents()
    contents.take(registered("a", 1, 1))
    copy = contents.copy()
    copy.take(registered("a", 2, 2))
    copy.take(ModeRecord("a", Mode.READONLY))
    copy.take(ConfigRecord("a", Config(compatibility_level=Level.FULL)))
    copy.take(DeleteSubjectRecord("a", 1))
    assert contents.versions("a") == [a_version("a", 1, 1)]
    assert contents.mode("a") is None
    assert contents.config("a") is None
    assert contents.highest_id == 1
    assert list(copy.subjects()) == ["a"]


def test_an_id_never_comes_to_mean_something_else(caplog: pytest.LogCaptureFixture) -> None:
    contents = RegistryContents()
    contents.take(registered("a", 1, 1))
    other = Version(subject="b", version=1, id=1, text='"string"')
    with caplog.at_level(logging.ERROR):
        contents.take(SchemaRecord("b", 1, other))
    assert "schema skipped" in caplog.text
    assert contents.version("b", 1) is None
    assert contents.with_id(1) == a_version("a", 1, 1)


def test_the_highest_id_outlives_its_schema_and_compaction() -> None:
    contents = RegistryContents()
    contents.take(registered("a", 1, 3))
    contents.take(SchemaRecord("a", 1, None))
    assert contents.next_id() == 4
    compacted = RegistryContents()
    compacted.apply(0, contents.sign_of_life())
    assert compacted.next_id() == 4


def test_ids_are_given_within_a_range() -> None:
    contents = RegistryContents(range(1000, 1002))
    contents.take(registered("a", 1, 1))
    assert contents.next_id() == 1000
    contents.take(SchemaRecord("b", 1, Version(subject="b", version=1, id=1001, text='"x"')))
    assert contents.next_id() is None


def test_who_refers_to_a_version() -> None:
    contents = RegistryContents()
    contents.take(registered("a", 1, 1))
    key = VersionKey("a", 1)
    referring = Version(
        subject="b", version=1, id=2, text='"x"', references=(Reference("A", "a", 1),)
    )
    contents.take(SchemaRecord("b", 1, referring))
    assert contents.referrers(key) == [referring]
    contents.take(DeleteSubjectRecord("b", 1))
    assert contents.referrers(key) == []
    assert contents.referrers(key, deleted=True) == [referring.as_deleted()]
    contents.take(SchemaRecord("b", 1, None))
    assert contents.referrers(key, deleted=True) == []


def test_one_record_of_nonsense_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    contents = RegistryContents()
    contents.apply(0, LogRecord(b"nonsense", b"nonsense"))
    contents.apply(1, write(registered("a", 1, 1)))
    assert contents.versions("a") == [a_version("a", 1, 1)]
    assert "offset=0" in caplog.text


def test_modes_reach_subjects_and_readonly_override_beats_them() -> None:
    contents = RegistryContents()
    assert contents.mode_in_scope("a") is Mode.READWRITE
    contents.take(ModeRecord(None, Mode.READONLY))
    contents.take(ModeRecord("a", Mode.READWRITE))
    assert contents.mode_in_scope("a") is Mode.READWRITE
    assert contents.mode_in_scope("b") is Mode.READONLY
    contents.take(ModeRecord(None, None))
    assert contents.mode_in_scope("b") is Mode.READWRITE


def test_a_topic_of_confluents_registry_comes_to_what_that_registry_showed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its contexts apart, in which ids are counted anew."""
    contents = RegistryContents()
    for offset, record in enumerate(confluents_records()):
        contents.apply(offset, record)
    assert contents.versions("orders-copy", deleted=True)
    assert len(contents) > 100
    assert list(contents.subjects(":.")) == []
    assert caplog.messages == []


def test_an_import_over_the_highest_id_does_not_set_it_free() -> None:
    contents = RegistryContents()
    contents.take(ModeRecord("a", Mode.IMPORT))
    contents.take(registered("a", 1, 4))
    request = SchemaRequest(schema=TEXTS[2], id=2, version=1)
    decision = register(contents, "a", request, normalize=False)
    compacted = RegistryContents()
    for offset, record in enumerate(decision.records):
        compacted.apply(offset, record)
    assert compacted.next_id() == 5


def test_equal_contents_keep_an_id_when_another_of_theirs_goes() -> None:
    contents = RegistryContents()
    contents.take(registered("a", 1, 1))
    contents.take(SchemaRecord("b", 1, Version(subject="b", version=1, id=9, text=TEXTS[1])))
    content = a_version("a", 1, 1).content
    assert contents.id_of(content) == 9
    assert contents.copy().id_of(content) == 9
    contents.take(SchemaRecord("b", 1, None))
    assert contents.id_of(content) == 1
    contents.take(SchemaRecord("a", 1, None))
    assert contents.id_of(content) is None


def test_what_is_referred_to_is_not_imported_over() -> None:
    contents = RegistryContents()
    contents.take(registered("a", 1, 1, deleted=True))
    referring = Version(
        subject="b", version=1, id=2, text="x", references=(Reference("A", "a", 1),), deleted=True
    )
    contents.take(SchemaRecord("b", 1, referring))
    with pytest.raises(ErrorAnswer) as refused:
        set_mode(contents, "a", Mode.IMPORT, force=False)
    assert refused.value.code == 42206
    contents.take(SchemaRecord("b", 1, None))
    for offset, record in enumerate(set_mode(contents, "a", Mode.IMPORT, force=False).records):
        contents.apply(offset, record)
    assert contents.versions("a", deleted=True) == []
    assert contents.next_id() == 3


def test_a_version_of_another_type_is_never_what_was_sent() -> None:
    contents = RegistryContents()
    text = TEXTS[1]
    other = Version(subject="a", version=1, id=1, text="x" * len(text), type="PROTOBUF")
    contents.take(SchemaRecord("a", 1, other))
    request = SchemaRequest(schema=text)
    sent = sent_schema(contents, request, strict=True, normalize=False)
    found = look_up(contents, "a", content_of(request, sent, sent.stored_text), sent)
    assert isinstance(found, Search)
    assert found.found() is None
