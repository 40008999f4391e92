"""Schemas that are right and made to cost much: sizes, references, versions to be compared with.

The registry of this module begins with a subject whose level compares a schema with all of a dozen
versions, and with 18 MB of schemas that anybody may ask for at once.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.system.registry.hostile import MIB, Watched, record
from tests.system.registry.raw_http import RawHttp, request
from tests.system.registry.topics import make_topic, schema_record

TOPIC = "_schemas_hostile"
UNION = ["null", "int", "string"]
FIELDS = 1500
VERSIONS = 12
LEVEL = (
    '{"keytype":"CONFIG","subject":"transitive","magic":0}',
    '{"subject":"transitive","compatibilityLevel":"FULL_TRANSITIVE"}',
)


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    versions = [
        schema_record("transitive", number, number, record("R", FIELDS, UNION, doc=str(number)))
        for number in range(1, VERSIONS + 1)
    ]
    large = [
        schema_record(f"large-{number}", 1, number, record(f"L{number}", 0, doc="x" * 900_000))
        for number in range(VERSIONS + 1, VERSIONS + 21)
    ]
    make_topic(running_broker.bootstrap, TOPIC, [LEVEL, *versions, *large])
    with RegistryProcess(
        tmp_path_factory.mktemp("hostile"),
        brokers=running_broker.bootstrap,
        settings={"topic": TOPIC},
    ) as registry:
        yield registry


BYSTANDER = "/subjects/transitive/versions"


def post(registry: RegistryProcess, path: str, schema: str, **more: Any) -> Any:
    answer = registry.ask("POST", path, {"schema": schema, **more})
    return answer.body


def test_others_read_while_large_schemas_are_registered(registry: RegistryProcess) -> None:
    """Alternately of few parts and of many; those of many are too large in the end."""
    with Watched(registry, BYSTANDER, grown=150 * MIB) as watched:
        for number in range(4):
            few = record(f"Few{number}", 0, doc="x" * 1_000_000)
            assert "id" in post(registry, f"/subjects/few-{number}/versions", few)
        for number in range(3):
            many = record(f"Many{number}", 24_000)
            assert "id" in post(registry, f"/subjects/many-{number}/versions", many)
    assert watched.served.p99 < 1.5, watched.served


def test_what_was_parsed_is_not_remembered_for_ever(registry: RegistryProcess) -> None:
    """A megabyte of text takes some 20 MiB when parsed."""
    with Watched(registry, BYSTANDER, grown=150 * MIB):
        for number in range(12):
            body = post(registry, "/subjects/transitive", record(f"Asked{number}", 24_000))
            assert body["error_code"] == 40403


def test_others_read_while_a_schema_is_compared_with_many(registry: RegistryProcess) -> None:
    following = record("R", FIELDS, UNION, doc="next")
    with Watched(registry, BYSTANDER, grown=150 * MIB) as watched:
        for path in (
            "/compatibility/subjects/transitive/versions?verbose=true",
            "/compatibility/subjects/transitive/versions/latest",
        ):
            assert post(registry, path, following)["is_compatible"] is True
        assert "id" in post(registry, "/subjects/transitive/versions", following)
    assert watched.served.longest < 3, watched.served


def tree(leaf: str, depth: int = 60) -> str:
    """Each record twice in the next, so that paths through it are 2 ** depth."""
    found: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": leaf}]}
    for number in range(1, depth):
        fields = [{"name": "a", "type": found}, {"name": "b", "type": f"R{number - 1}"}]
        found = {"type": "record", "name": f"R{number}", "fields": fields}
    return json.dumps(found)


def thicket(leaf: str, size: int = 40) -> str:
    """Unions of all the records before, in each field of each record."""
    records = []
    for number in range(size):
        of = ["null", *(f"M{before}" for before in range(number)), leaf]
        fields = [{"name": f"g{each}", "type": of, "default": None} for each in range(3)]
        records.append({"type": "record", "name": f"M{number}", "fields": fields})
    return json.dumps(records)


def circle(leaf: str, size: int = 500) -> str:
    of = ["null", "S", {"type": "array", "items": "S"}, {"type": "map", "values": ["S", leaf]}]
    return record("S", size, of)


def crowd(name: str, size: int = 400) -> str:
    """A union of records that share nothing with those of another name."""
    return json.dumps([json.loads(record(f"{name}{number}", 5)) for number in range(size)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (tree("int"), tree("string")),
        (thicket("int"), thicket("string")),
        (circle("int"), circle("string")),
        (crowd("A"), crowd("B")),
        (record("R", 8000), record("R", 8000, "string")),
    ],
    ids=["tree", "thicket", "circle", "crowd", "fields"],
)
def test_pairs_that_are_hard_to_compare(
    registry: RegistryProcess, subject: str, old: str, new: str
) -> None:
    with Watched(registry, BYSTANDER, grown=150 * MIB):
        assert "id" in post(registry, f"/subjects/{subject}/versions", old)
        path = f"/compatibility/subjects/{subject}/versions/latest?verbose=true"
        answer = post(registry, path, new)
        assert answer["is_compatible"] is False
        assert 0 < len(answer["messages"]) < 10_000
        refused = post(registry, f"/subjects/{subject}/versions", new)
        assert refused["error_code"] == 40901


def register_all(registry: RegistryProcess, subject: str, schemas: list[dict[str, Any]]) -> None:
    """As subject-0, subject-1 and so on; in four connections, as one waits for each answer."""

    def register(remainder: int) -> None:
        with RawHttp(registry.address) as connection:
            for number in range(remainder, len(schemas), 4):
                body = json.dumps(schemas[number]).encode()
                path = f"/subjects/{subject}-{number}/versions"
                answers.append(connection.ask(request("POST", path, body)).status)

    answers: list[int] = []
    threads = [threading.Thread(target=register, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * len(schemas)


def referring(subject: str, *names: str, to: list[int]) -> dict[str, Any]:
    """A request with references to these, which stand in subjects that are numbered alike."""
    fields = [{"name": f"f{each}", "type": name} for each, name in enumerate(names)]
    schema = {"type": "record", "name": "Referring", "fields": fields}
    references = [
        {"name": name, "subject": f"{subject}-{number}", "version": 1}
        for name, number in zip(names, to, strict=True)
    ]
    return {"schema": json.dumps(schema), "references": references}


def test_a_thousand_references(registry: RegistryProcess, subject: str) -> None:
    count = 1000
    schemas = [{"schema": record(f"R{number}", 1)} for number in range(count)]
    with Watched(registry, BYSTANDER):
        register_all(registry, subject, schemas)
        names = [f"R{number}" for number in range(count)]
        asked = referring(subject, *names, to=list(range(count)))
        answer = registry.ask("POST", f"/subjects/{subject}/versions", asked)
        assert answer.status == 200
        asked["references"].append({"name": "Gone", "subject": "gone", "version": 1})
        answer = registry.ask("POST", f"/subjects/{subject}/versions", asked)
        assert (answer.status, answer.body["error_code"]) == (422, 42201)
        assert '"gone"' in answer.body["message"]


def test_references_to_references(registry: RegistryProcess, subject: str) -> None:
    """Each refers to the one before, until that is too deep: then by an error that says so."""
    register_all(registry, subject, [{"schema": record("R0", 1)}])
    number, answer = 0, registry.ask("GET", "/subjects")
    with Watched(registry, BYSTANDER):
        while answer.status == 200 and number < 200:
            number += 1
            before = f"R{number - 1}"
            fields = [{"name": "a", "type": before}, {"name": "b", "type": ["null", before]}]
            schema = {"type": "record", "name": f"R{number}", "fields": fields}
            reference = {"name": before, "subject": f"{subject}-{number - 1}", "version": 1}
            asked = {"schema": json.dumps(schema), "references": [reference]}
            answer = registry.ask("POST", f"/subjects/{subject}-{number}/versions", asked)
    assert number > 20
    assert (answer.status, answer.body["error_code"]) == (422, 42201)
    last = f"/subjects/{subject}-{number - 1}/versions/1"
    assert registry.ask("GET", last).status == 200
    assert registry.ask("GET", f"{last}?format=resolved").status == 200


def test_many_ask_for_everything_and_read_nothing(registry: RegistryProcess) -> None:
    """40 times some 20 MB; what is kept for those who do not read has a bound."""
    with Watched(registry, BYSTANDER, grown=200 * MIB), ExitStack() as stack:
        for _ in range(40):
            reader = stack.enter_context(RawHttp(registry.address, receive_buffer=8192))
            reader.send(request("GET", "/schemas") * 3)
        found = registry.ask("GET", "/schemas")
        assert found.status == 200
        assert sum(len(each["schema"]) for each in found.body) > 18_000_000
