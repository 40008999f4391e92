"""Bodies that are wrong, too much, or made to hurt: Confluent's code, and a registry that lives.

Then schemas that are right and made to cost much: sizes, references, versions to be compared with.
Their registry begins with a subject whose level compares a schema with all of a dozen versions, and
with 18 MB of schemas that anybody may ask for at once.
"""

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import Answer, RegistryProcess
from tests.system.registry.hostile import MIB, Watched, record
from tests.system.registry.raw_http import Closed, RawHttp, request
from tests.system.registry.topics import make_topic, schema_record

DEEP = 100_000


@pytest.fixture(scope="module", autouse=True)
def others_are_served(running_registry: RegistryProcess) -> Iterator[None]:
    """Through all that this module sends the registry does not grow by 150 MiB."""
    answer = running_registry.register("bystander", "string")
    path = f"/schemas/ids/{answer.body['id']}"
    with Watched(running_registry, path, grown=150 * MIB):
        yield


def sent(registry: RegistryProcess, path: str, body: bytes, method: str = "POST") -> Answer:
    """Any bytes at all, as a body."""
    with RawHttp(registry.address) as connection:
        answer = connection.ask(request(method, path, body))
        return Answer(answer.status, answer.body)


def registering(schema: str, **more: Any) -> bytes:
    return json.dumps({"schema": schema, **more}).encode()


def nested(opening: str, inner: str, closing: str, depth: int = DEEP) -> str:
    return opening * depth + inner + closing * depth


def field_of(of: str, default: str = "") -> str:
    return f'{{"type":"record","name":"R","fields":[{{"name":"f","type":{of}{default}}}]}}'


NOT_JSON = {
    "nothing": b"",
    "a brace": b"{",
    "no object": b"[]",
    "a number": b"5",
    "two objects": b'{"schema":"\\"int\\""}{}',
    "not UTF-8": b'{"schema":"\xff\xfe"}',
    "half of UTF-16": '{"schema":"\\"int\\""}'.encode("utf-16")[:-1],
    "compressed": gzip.compress(registering('"int"')),
    "a schema that is a number": b'{"schema":5}',
    "a schema that is an object": b'{"schema":{"type":"int"}}',
    "references that are none": b'{"schema":"\\"int\\"","references":[1]}',
    "an id beyond all": b'{"schema":"\\"int\\"","id":99999999999999999999}',
    "an infinite version": b'{"schema":"\\"int\\"","version":1e999}',
    "deep arrays": nested("[", "", "]").encode(),
    "deep objects": nested('{"a":', "1", "}").encode(),
    "deep where it is not looked": b'{"schema":"\\"int\\"","x":%b}' % nested("[", "", "]").encode(),
    "deep metadata": b'{"schema":"\\"int\\"","metadata":%b}' % nested("[", "", "]").encode(),
    "metadata that is a number": b'{"schema":"\\"int\\"","metadata":5}',
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_a_body_that_is_none(running_registry: RegistryProcess, subject: str, body: bytes) -> None:
    answer = sent(running_registry, f"/subjects/{subject}/versions", body)
    assert answer.status == (400 if body else 422)
    assert answer.body["error_code"] == answer.status
    assert answer.body["message"]
    assert running_registry.ask("GET", f"/subjects/{subject}/versions").status == 404


NO_SCHEMA = {
    "empty": "",
    "spaces": "   ",
    "not JSON": "int",
    "half": '{"type":"record","name":"R"',
    "no type": '{"name":"R"}',
    "an unknown type": '{"type":"integer"}',
    "an unknown name": field_of('"Nobody"'),
    "no name": '{"type":"record","fields":[]}',
    "an illegal name": '{"type":"record","name":"R-R","fields":[]}',
    "no fields": '{"type":"record","name":"R"}',
    "one field twice": record("R", 1).replace("[", '[{"name":"f0","type":"int"},'),
    "one name twice": '[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":2}]',
    "a union in a union": '["null",["int"]]',
    "one branch twice": '["int","int"]',
    "a default of another type": field_of('"int"', ',"default":"five"'),
    "a huge number": field_of('"long"', f',"default":{"9" * 100_000}'),
    "a huge exponent": field_of('"long"', ',"default":1e999999999'),
    "a huge fixed": f'{{"type":"fixed","name":"F","size":{"9" * 5000}}}',
    "a huge precision": f'{{"type":"bytes","logicalType":"decimal","precision":{"9" * 5000}}}',
    "a long name": record("N" * 500_000, 0),
    "deep JSON": nested("[", '"int"', "]"),
    "deep and never closed": "[" * DEEP,
    "deep types": nested('{"type":', '"int"', "}"),
    "deep arrays": nested('{"type":"array","items":', '"int"', "}", 20_000),
    "deep maps": nested('{"type":"map","values":', '"int"', "}", 20_000),
    "deep unions": nested('["null",{"type":"array","items":', '"int"', "}]", 20_000),
    "deep records": nested(
        '{"type":"record","name":"R","fields":[{"name":"f","type":', '"int"', "}]}", 10_000
    ),
    "a deep default": field_of('"int"', f',"default":{nested("[", "", "]")}'),
    "a deep property": f'{{"type":"int","x":{nested("[", "", "]")}}}',
}


@pytest.mark.parametrize("schema", NO_SCHEMA.values(), ids=NO_SCHEMA.keys())
def test_a_schema_that_is_none(
    running_registry: RegistryProcess, subject: str, schema: str
) -> None:
    answer = sent(running_registry, f"/subjects/{subject}/versions", registering(schema))
    assert (answer.status, answer.body["error_code"]) == (422, 42201)
    # Nobody reads a message of megabytes.
    assert 10 < len(answer.body["message"]) < 1000
    assert running_registry.ask("GET", f"/subjects/{subject}/versions").status == 404


@pytest.mark.parametrize("size", [1_060_000, 1_900_000, 10 * MIB, 30 * MIB])
def test_a_schema_that_is_too_large(
    running_registry: RegistryProcess, subject: str, size: int
) -> None:
    body = registering(record("R", 0, doc="x" * size))
    answer = sent(running_registry, f"/subjects/{subject}/versions", body)
    assert (answer.status, answer.body["error_code"]) == (422, 42209)
    for path in (f"/subjects/{subject}", f"/compatibility/subjects/{subject}/versions"):
        assert sent(running_registry, path, body).status in {404, 413, 422}
    assert running_registry.ask("GET", f"/subjects/{subject}/versions").status == 404


def test_a_hundred_megabytes(running_registry: RegistryProcess, subject: str) -> None:
    """Whoever goes on sending such a body is cut off; whoever listens is told why."""
    head = request("POST", f"/subjects/{subject}/versions", b"", b"Expect: 100-continue")
    head = head.replace(b"Content-Length: 0", b"Content-Length: %d" % (100 * MIB))
    with RawHttp(running_registry.address) as connection:
        connection.send(head)
        try:
            for _ in range(100):
                connection.send(bytes(MIB))
            answer = connection.answer()
        except Closed:
            return
        assert answer.status in {413, 422}


def test_many_fields_symbols_and_branches(running_registry: RegistryProcess, subject: str) -> None:
    """Not only taken: the next version of each is judged against it."""
    symbols = [f"s{number}" for number in range(10_000)]
    for number, (schema, successor) in enumerate(
        (
            (record("R", 10_000), record("R", 10_000, "long")),
            (
                json.dumps({"type": "enum", "name": "E", "symbols": symbols}),
                json.dumps({"type": "enum", "name": "E", "symbols": [*symbols, "more"]}),
            ),
            (
                json.dumps([json.loads(record(f"R{number}", 1)) for number in range(2000)]),
                json.dumps([json.loads(record(f"R{number}", 1, "long")) for number in range(2000)]),
            ),
        )
    ):
        path = f"/subjects/{subject}-{number}/versions"
        assert sent(running_registry, path, registering(schema)).status == 200
        assert sent(running_registry, path, registering(successor)).status == 200


ILLEGAL = {
    "__GLOBAL": (422, 42208),
    "__EMPTY": (422, 42208),
    "a%00b": (400, 400),
    "a%0d%0aX: y": (400, 400),
    "%ff": (400, 400),
    "a%2": (400, 400),
    "%2e%2e": (400, 400),
    "": (400, 400),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_subject_that_may_not_be(running_registry: RegistryProcess, name: str) -> None:
    path = f"/subjects/{name.replace(' ', '%20')}/versions"
    answer = sent(running_registry, path, registering('"int"'))
    assert (answer.status, answer.body["error_code"]) == ILLEGAL[name]


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


def test_references_to_references(registry: RegistryProcess, subject: str) -> None:
    """Each refers to the one before, until that is too deep: then by an error that says so."""
    post(registry, f"/subjects/{subject}-0/versions", record("R0", 1))
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
