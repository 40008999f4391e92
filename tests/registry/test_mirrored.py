"""Schemas of other clusters beside a registry's own: the same ids, under a prefix, read only."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from registry.changes.compatibility import config_in_scope
from registry.changes.registration import register
from registry.changes.settings import set_mode
from registry.errors import ErrorAnswer
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.log_records import (
    ClearSubjectRecord,
    ConfigRecord,
    DeleteSubjectRecord,
    ModeRecord,
    NoRecord,
    Record,
    SchemaRecord,
    write,
)
from registry.schemas_topic.values import Config, Level, Mode, Reference, Version
from tests.registry.drawn_records import records

PREFIX = "dc1."
OWN_IDS = range(1_000, 2_000)


def united(*prefixes: str) -> RegistryContents:
    return RegistryContents(OWN_IDS, mirrored=prefixes or (PREFIX,))


def version(subject: str, number: int, schema_id: int, text: str, *references: Reference) -> Record:
    made = Version(subject=subject, version=number, id=schema_id, text=text, references=references)
    return SchemaRecord(subject, number, made)


def renamed(found: Version) -> Version:
    return msgspec.structs.replace(found, subject=PREFIX + found.subject)


@given(st.lists(records, max_size=40))
def test_it_says_what_the_other_registry_says(taken: list[Record]) -> None:
    there, here = RegistryContents(), united()
    here.take(version("own", 1, 1_000, '"double"'))
    for offset, record in enumerate(taken):
        there.apply(offset, write(record))
        here.apply_mirrored(PREFIX, offset, write(record))
    for contents in (here, here.copy()):
        assert list(contents.subjects(PREFIX)) == [PREFIX + each for each in there.subjects()]
        assert contents.own_subjects() == ["own"]
        for subject in there.subjects():
            assert contents.versions(PREFIX + subject, deleted=True) == [
                renamed(each) for each in there.versions(subject, deleted=True)
            ]
        for schema_id in range(1, 5):
            found, wanted = contents.with_id(schema_id), there.with_id(schema_id)
            assert (found and found.text) == (wanted and wanted.text)
            assert contents.versions_with_id(schema_id) == [
                renamed(each) for each in there.versions_with_id(schema_id)
            ]
    assert here.next_id() == 1_001
    assert here.left_out == 0


def test_references_are_followed_within_the_cluster() -> None:
    contents = united()
    contents.take_mirrored(PREFIX, version("common", 1, 7, '"int"'))
    contents.take_mirrored(PREFIX, version("a", 1, 8, '"a"', Reference("C", "common", 1)))
    (found,) = contents.versions(PREFIX + "a")
    assert found.references == (Reference("C", PREFIX + "common", 1),)


def test_settings_of_all_are_those_of_that_cluster() -> None:
    contents = united()
    contents.take_mirrored(PREFIX, ConfigRecord(None, Config(compatibility_level=Level.FULL)))
    contents.take(ConfigRecord(None, Config(compatibility_level=Level.NONE)))
    assert config_in_scope(contents, PREFIX + "a").compatibility_level is Level.FULL
    assert config_in_scope(contents, "a").compatibility_level is Level.NONE
    contents.take_mirrored(PREFIX, ConfigRecord("a", Config(compatibility_level=Level.FORWARD)))
    assert config_in_scope(contents, PREFIX + "a").compatibility_level is Level.FORWARD
    assert config_in_scope(contents, "a").compatibility_level is Level.NONE


def test_nobody_writes_what_is_mirrored() -> None:
    contents = united()
    contents.take_mirrored(PREFIX, version("a", 1, 7, '"int"'))
    contents.take_mirrored(PREFIX, ModeRecord(None, Mode.IMPORT))
    contents.take_mirrored(PREFIX, ModeRecord("a", Mode.READWRITE))
    for subject in ("dc1.a", "dc1.new"):
        assert contents.mode(subject) is contents.mode_in_scope(subject) is Mode.READONLY
        with pytest.raises(ErrorAnswer, match="read-only"):
            register(contents, subject, SchemaRequest(schema='"long"'), normalize=False)
    assert contents.mode_in_scope("a") is Mode.READWRITE


def test_records_of_the_own_topic_say_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    contents = united()
    contents.take_mirrored(PREFIX, version("a", 1, 7, '"int"'))
    for record in (
        version("dc1.a", 1, 1_000, '"long"'),
        SchemaRecord("dc1.a", 1, None),
        DeleteSubjectRecord("dc1.a", 1),
        ConfigRecord("dc1.a", Config(compatibility_level=Level.NONE)),
    ):
        contents.take(record)
    assert [each.text for each in contents.versions("dc1.a")] == ['"int"']
    assert contents.config("dc1.a") is None
    assert contents.left_out == 4
    assert "subject belongs to another cluster" in caplog.text


def test_what_is_cleared_here_stays_there_and_the_reverse() -> None:
    contents = united("dc1.", "dc2.")
    for prefix, schema_id in (("dc1.", 7), ("dc2.", 8)):
        contents.take_mirrored(prefix, version("a", 1, schema_id, f'"of {prefix}"'))
        contents.take_mirrored(prefix, DeleteSubjectRecord("a", 1))
    contents.take(version("a", 1, 1_000, '"int"'))
    contents.take(DeleteSubjectRecord("a", 1))
    contents.take_mirrored("dc1.", ClearSubjectRecord(None))
    assert list(contents.subjects()) == ["a", "dc2.a"]
    contents.take(ClearSubjectRecord(None))
    assert list(contents.subjects()) == ["dc2.a"]
    assert set_mode(contents, None, Mode.IMPORT, force=False).answer is Mode.IMPORT


def test_a_schema_that_another_cluster_has_keeps_its_id() -> None:
    contents = united()
    contents.take_mirrored(PREFIX, version("a", 1, 7, '"int"'))
    found = register(contents, "own", SchemaRequest(schema='"int"'), normalize=False).answer
    assert found.id == 7
    found = register(contents, "own", SchemaRequest(schema='"long"'), normalize=False).answer
    assert found.id == OWN_IDS.start


def test_an_id_of_two_clusters_is_said(caplog: pytest.LogCaptureFixture) -> None:
    contents = united("dc1.", "dc2.")
    contents.take_mirrored("dc1.", version("a", 1, 7, '"int"'))
    contents.take_mirrored("dc2.", version("b", 1, 7, '"long"'))
    assert contents.left_out == 1
    assert "its id belongs to another schema subject='dc2.b' version=1 id=7" in caplog.text
    assert contents.version("dc1.a", 1) is not None
    assert contents.version("dc2.b", 1) is None


def test_the_highest_id_there_is_not_the_highest_here() -> None:
    contents = united()
    contents.take_mirrored(PREFIX, NoRecord(1_500))
    assert contents.next_id() == 1_000


@pytest.fixture
def site(
    tmp_path: Path, bootstrap: str, new_topic: str
) -> Iterator[tuple[RegistryProcess, RegistryProcess, RegistryProcess]]:
    """Registries of two datacenters, of which the second has not started, and one that serves
    both beside its own schemas. Their topics are in one cluster, as copies of them would be."""
    names = [f"{each}.{new_topic}._schemas" for each in ("dc1", "dc2")]
    of_dc1, of_dc2 = (
        RegistryProcess(
            tmp_path / name,
            brokers=bootstrap,
            settings={"topic": name, "id_base": 1 + number * 1_000, "id_count": 1_000},
        )
        for number, name in enumerate(names)
    )
    mirrored = [{"topic": names[0]}, {"topic": names[1], "prefix": "dc2."}]
    offline = RegistryProcess(
        tmp_path / "offline",
        brokers=bootstrap,
        settings={"topic": new_topic, "id_base": 1_000_000, "mirrored": mirrored},
    )
    with ExitStack() as ends:
        ends.enter_context(of_dc1)
        ends.callback(of_dc2.stop)
        ends.enter_context(offline)
        yield of_dc1, of_dc2, offline


def record_of(name: str, kind: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": kind}]}


def test_an_offline_registry(
    site: tuple[RegistryProcess, RegistryProcess, RegistryProcess], new_topic: str
) -> None:
    of_dc1, of_dc2, offline = site
    prefix = f"dc1.{new_topic}."
    assert of_dc1.register("common", record_of("Common", "int")).body["id"] == 1
    reference = {"name": "Common", "subject": "common", "version": 1}
    outer = json.dumps(record_of("Outer", "Common"))
    body = {"schema": outer, "references": [reference]}
    assert of_dc1.ask("POST", "/subjects/outer/versions", body).body["id"] == 2
    of_dc1.ask("PUT", "/config", {"compatibility": "NONE"})

    subject = f"{prefix}outer"
    wait_until(
        lambda: (
            offline.ask("GET", f"/config/{subject}?defaultToGlobal=true").body
            == {"compatibilityLevel": "NONE"}
        ),
        within=30,
        what="the other's settings are read",
    )
    assert offline.ask("GET", "/subjects").body == [f"{prefix}common", subject]
    found = offline.ask("GET", f"/subjects/{subject}/versions/1").body
    assert found["id"] == 2
    assert found["references"] == [{**reference, "subject": f"{prefix}common"}]
    assert offline.ask("GET", "/schemas/ids/2").body["schema"] == found["schema"]
    assert "Common" in offline.ask("GET", "/schemas/ids/2?format=resolved").body["schema"]

    refused = offline.register(subject, record_of("New", "long"))
    assert (refused.status, refused.body["error_code"]) == (422, 42205)
    assert offline.ask("GET", f"/mode/{subject}").body == {"mode": "READONLY"}
    assert offline.ask("DELETE", f"/subjects/{subject}").body["error_code"] == 42205
    assert offline.register("own", record_of("Own", "long")).body["id"] == 1_000_000
    assert offline.ask("GET", "/mode").body == {"mode": "READWRITE"}

    # One whose topic comes later, and what refers to it from here.
    with of_dc2:
        assert of_dc2.register("late", record_of("Late", "int")).body["id"] == 1_001
        wait_until(
            lambda: offline.ask("GET", "/schemas/ids/1001").status == 200,
            within=30,
            what="a topic that has come is read",
        )
        reference = {"name": "Late", "subject": "dc2.late", "version": 1}
        body = {"schema": json.dumps(record_of("Uses", "Late")), "references": [reference]}
        assert offline.ask("POST", "/subjects/uses/versions", body).body["id"] == 1_000_001
    metrics = offline.ask("GET", "/metrics").body
    assert "penstock_registry_schemas_left_out 0.0" in metrics
    assert f'penstock_registry_mirrored_offset{{topic="dc1.{new_topic}._schemas"}} ' in metrics

    # What is there before it starts is there once it serves.
    offline.terminate(within=20)
    offline.start()
    names = offline.ask("GET", "/subjects").body
    assert names == [f"{prefix}common", subject, "dc2.late", "own", "uses"]
    assert offline.ask("GET", "/schemas/ids/1000001").status == 200
