"""A registry on a topic that is there already: another's, a dump's, one that does not fit."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.system.registry.topics import Dumped, confluents_dump, make_topic, schema_record

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def dump() -> Dumped:
    return Dumped(confluents_dump())


@pytest.fixture(scope="module")
def restored(
    tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    """On a dump of Confluent's topic, with ids of its own from a million on."""
    make_topic(running_broker.bootstrap, "_restored", confluents_dump())
    settings = {"topic": "_restored", "id_base": 1_000_000, "id_count": 2}
    directory = tmp_path_factory.mktemp("restored")
    with RegistryProcess(
        directory, brokers=running_broker.bootstrap, settings=settings
    ) as registry:
        yield registry


def test_a_dump_of_confluents_topic_is_served(restored: RegistryProcess, dump: Dumped) -> None:
    assert len(dump.ids) > 90
    own = {f"restored-{number}" for number in range(3)}
    assert set(restored.ask("GET", "/subjects").body) - own == set(dump.subjects)
    for subject in dump.subjects:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        live = dump.live(subject)
        assert restored.ask("GET", path).body == list(live)
        for number, version in live.items():
            found = restored.ask("GET", f"{path}/{number}").body
            wanted = ("subject", "version", "id", "schema", "references")
            assert {name: found.get(name) for name in wanted} == {
                name: version.get(name) for name in wanted
            }
    for schema_id, schema in dump.ids.items():
        assert restored.ask("GET", f"/schemas/ids/{schema_id}").body["schema"] == schema


def test_levels_and_modes_of_a_dump_hold(restored: RegistryProcess, dump: Dumped) -> None:
    assert dump.levels
    assert dump.modes
    for kind, name, settings in (
        ("config", "compatibilityLevel", dump.levels),
        ("mode", "mode", dump.modes),
    ):
        for subject, setting in settings.items():
            path = f"/{kind}/{quote(subject, safe='')}" if subject else f"/{kind}"
            assert restored.ask("GET", path).body.get(name) == setting, path


def test_ids_come_from_their_range_until_there_are_none_left(restored: RegistryProcess) -> None:
    answers = [
        restored.register(f"restored-{number}", {"type": "fixed", "name": "F", "size": number + 77})
        for number in range(3)
    ]
    assert [answer.body.get("id") for answer in answers] == [1_000_000, 1_000_001, None]
    assert (answers[2].status, answers[2].body["error_code"]) == (500, 50001)
    assert "configure another range" in answers[2].body["message"]


def test_without_a_range_ids_go_on(
    tmp_path: Path, running_broker: BrokerProcess, new_topic: str, dump: Dumped
) -> None:
    """Beyond all that ever were in the dump, also those whose schemas are gone. Confluent's
    contexts number their schemas each for itself, from 1 on: they take nothing away."""
    records = [
        *confluents_dump(),
        schema_record(":.elsewhere:s", 1, 1, '"bytes"'),
        schema_record("s", 1, 1, dump.ids[1]),
    ]
    values = [json.loads(value) for _, value in records if value is not None]
    highest = max(value.get("id", 0) for value in values)
    make_topic(running_broker.bootstrap, new_topic, records)
    settings = {"topic": new_topic}
    with RegistryProcess(tmp_path, brokers=running_broker.bootstrap, settings=settings) as registry:
        answer = registry.register("beyond", {"type": "fixed", "name": "Beyond", "size": 99})
        assert answer.body == {"id": highest + 1}
        known, schema = next(iter(dump.ids.items()))
        again = registry.ask("POST", "/subjects/known/versions", {"schema": schema})
        assert again.body == {"id": known}
        assert registry.ask("GET", "/subjects/s/versions").body == [1]
        assert registry.ask("GET", "/schemas/ids/1").body["schema"] == dump.ids[1]


def test_one_that_only_reads(
    tmp_path: Path, running_broker: BrokerProcess, restored: RegistryProcess, dump: Dumped
) -> None:
    settings = {"topic": "_restored", "read_only": True}
    with RegistryProcess(tmp_path, brokers=running_broker.bootstrap, settings=settings) as registry:
        assert set(dump.subjects) <= set(registry.ask("GET", "/subjects").body)
        assert registry.ask("GET", "/mode").body == {"mode": "READONLY"}
        schema = {"schema": '{"type": "fixed", "name": "New", "size": 1}'}
        for method, path, body in (
            ("POST", "/subjects/new/versions", schema),
            ("DELETE", f"/subjects/{quote(dump.subjects[0], safe='')}", None),
            ("DELETE", f"/subjects/{quote(dump.subjects[0], safe='')}/versions/1", None),
            ("PUT", "/config", {"compatibility": "NONE"}),
            ("PUT", "/mode", {"mode": "READWRITE"}),
            ("DELETE", "/config/new", None),
        ):
            answer = registry.ask(method, path, body)
            assert (answer.status, answer.body["error_code"]) == (422, 42205), (method, path)
        # What another writes is seen here.
        before = registry.ask("GET", "/config").body
        assert restored.ask("PUT", "/config/seen", {"compatibility": "FULL"}).status == 200
        seen = {"compatibilityLevel": "FULL"}
        wait_until(lambda: registry.ask("GET", "/config/seen").body == seen, what="it is seen")
        assert registry.ask("GET", "/config").body == before
        assert registry.terminate() == 0


def test_ten_thousand_schemas_are_there_in_five_seconds(
    tmp_path: Path, running_broker: BrokerProcess, new_topic: str
) -> None:
    """Of its processor's time: what else the machine has to do is not counted."""
    fields = ",".join(f'{{"name":"field_{number}","type":"string"}}' for number in range(20))
    make_topic(
        running_broker.bootstrap,
        new_topic,
        (
            schema_record(
                f"subject-{number // 10}",
                number % 10 + 1,
                number + 1,
                f'{{"type":"record","name":"R{number}","fields":[{fields}]}}',
            )
            for number in range(10_000)
        ),
    )
    registry = RegistryProcess(
        tmp_path, brokers=running_broker.bootstrap, settings={"topic": new_topic}
    )
    with registry:
        registry.restart()
        took, held = registry.process.cpu_seconds(), registry.process.rss()
        print(f"ready after {took:.2f} s with {held / MIB:.0f} MiB")
        assert took < 5
        assert held < 200 * MIB
        assert len(registry.ask("GET", "/subjects").body) == 1000
        assert '"R9999"' in registry.ask("GET", "/schemas/ids/10000").body["schema"]
        assert registry.register("next", "int").body == {"id": 10_001}
