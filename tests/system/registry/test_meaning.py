"""Any schemas at all: what is registered comes back as it was meant, what is accepted can be read.

Judged by fastavro, which shares no code with what the registry parses and compares with.
"""

import copy
import json
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.registry_process import Answer, RegistryProcess
from tests.schemas.avro_strategies import schemas
from tests.schemas.schema_pairs import Pair
from tests.schemas.test_compatibility_reading import check_reading
from tests.system.registry.raw_http import RawHttp, request

FEW = max(8, settings.default.max_examples // 10)  # type: ignore[union-attr]
AT_ONCE = 8
SAID_FOR_NOTHING = [("aliases", []), ("order", "ascending")]
LEVELS = ["BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE"]


@pytest.fixture(scope="module")
def ask(running_registry: RegistryProcess) -> Iterator["Ask"]:
    with RawHttp(running_registry.address) as connection:
        yield Ask(connection)


class Ask:
    """Requests through one connection, with subjects of their own."""

    def __init__(self, connection: RawHttp) -> None:
        self._connection = connection

    def subject(self) -> str:
        return f"meaning-{uuid.uuid4().hex}"

    def get(self, path: str) -> Any:
        return self._asked(request("GET", path)).body

    def put(self, path: str, body: Any) -> Answer:
        return self._asked(request("PUT", path, json.dumps(body).encode()))

    def post(self, path: str, schema: Any) -> Answer:
        body = {"schema": json.dumps(schema)}
        return self._asked(request("POST", path, json.dumps(body).encode()))

    def _asked(self, sent: bytes) -> Answer:
        answer = self._connection.ask(sent)
        return Answer(answer.status, answer.body)


def meaning(schema: Any) -> Any:
    """The same for schemas that mean the same: full names, no types in needless brackets."""
    return _plain(fastavro.parse_schema(copy.deepcopy(schema)))


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() == {"type"}:
        return _plain(schema["type"])
    made = {
        name: value
        for name, value in schema.items()
        if not name.startswith("__") and (name, value) not in SAID_FOR_NOTHING
    }
    for name in {"type", "items", "values"} & made.keys():
        made[name] = _plain(made[name])
    if "aliases" in made:  # Java takes them for a set.
        made["aliases"] = sorted(set(made["aliases"]))
    if "fields" in made:
        made["fields"] = [_plain(each) for each in made["fields"]]
    return made


@given(batch=st.lists(schemas(), max_size=8))
@settings(max_examples=FEW)
def test_what_is_registered_comes_back_as_it_was_meant(ask: Ask, batch: list[Any]) -> None:
    for schema in batch:
        subject = ask.subject()
        registered = ask.post(f"/subjects/{subject}/versions", schema)
        assert registered.status == 200, (schema, registered)
        by_id = json.loads(ask.get(f"/schemas/ids/{registered.body['id']}")["schema"])
        version = ask.get(f"/subjects/{subject}/versions/latest")
        assert version["id"] == registered.body["id"]
        assert json.loads(version["schema"]) == by_id
        assert meaning(by_id) == meaning(schema)
        # As it came or as it is given back: both are this version.
        for text in (schema, by_id):
            assert ask.post(f"/subjects/{subject}", text).body["version"] == version["version"]
        # Normalizing twice is normalizing once.
        normalizing = f"/subjects/{ask.subject()}/versions?normalize=true"
        first = ask.post(normalizing, schema).body["id"]
        normalized = json.loads(ask.get(f"/schemas/ids/{first}")["schema"])
        assert ask.post(normalizing, normalized).body["id"] == first


@given(seeds=st.lists(st.integers(0, 2**48), min_size=AT_ONCE, max_size=AT_ONCE))
@settings(max_examples=FEW)
def test_what_is_accepted_can_be_read(ask: Ask, seeds: list[int]) -> None:
    for seed in seeds:
        random = Random(seed)
        level = random.choice(LEVELS)
        pair = Pair(random, size=random.randint(1, 6))
        subject = ask.subject()
        ask.put(f"/config/{subject}", {"compatibility": level})
        versions: list[Any] = []
        for _ in range(3):
            schema = copy.deepcopy(pair.text())
            pair.grow(random.randint(1, 3))
            checked = ask.post(f"/compatibility/subjects/{subject}/versions", schema)
            registered = ask.post(f"/subjects/{subject}/versions", schema)
            # Both judge alike, and before there is anything to compare with.
            assert checked.body["is_compatible"] is (registered.status == 200), schema
            if registered.status == 200:
                for earlier in versions if "TRANSITIVE" in level else versions[-1:]:
                    check_level(level, schema, earlier, random)
                versions.append(schema)
            else:
                assert registered.body["error_code"] == 40901


def check_level(level: str, new: Any, old: Any, random: Random) -> None:
    if not level.startswith("FORWARD"):
        check_reading(new, old, random)
    if not level.startswith("BACKWARD"):
        check_reading(old, new, random)
