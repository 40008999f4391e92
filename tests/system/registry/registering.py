"""Confluent's clients that register schemas continuously, and the checks of the result.

They have their default retries, and are never refused: any outage of registries must be over within
these.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from client.producing.producer import Identity
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.system.crash import Worker
from wire.record_batches.batch import headers
from wire.record_batches.records import records

SHARED = "shared"


def numbered(name: str, number: int) -> str:
    """A schema that is unique to this name and number, as the registry writes it."""
    fields = [{"name": f"{name}_{number}", "type": "int", "default": number}]
    schema = {"type": "record", "name": "R", "fields": fields}
    return json.dumps(schema, separators=(",", ":"))


class Registrant(Worker):
    """Alternately registers a schema of its own and one that all others register, too."""

    def __init__(self, name: str, registries: Sequence[RegistryProcess]) -> None:
        """It talks to the first of the registries that answers."""
        super().__init__(name)
        self.registries = registries
        self.ids: dict[str, int] = {}
        self.slowest = 0.0

    def work(self) -> None:
        urls = ",".join(each.url for each in self.registries)
        number = 0
        with SchemaRegistryClient({"url": urls}) as client:
            while not self.stopping:
                number += 1
                self._register(client, self.name, numbered(self.name, number))
                self._register(client, SHARED, numbered(SHARED, number))
                time.sleep(0.02)  # The machine is for the registries.

    def _register(self, client: SchemaRegistryClient, subject: str, schema: str) -> None:
        began = time.monotonic()
        schema_id = client.register_schema(subject, Schema(schema))
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.ids[schema] = schema_id


def go_on(registrants: Iterable[Registrant], count: int = 2, *, within: float = 60) -> None:
    """Wait until each has registered `count` more, or has failed."""
    wanted = {each: len(each.ids) + count for each in registrants}
    wait_until(
        lambda: all(len(each.ids) >= least or each.failure for each, least in wanted.items()),
        within=within,
        what=f"{', '.join(each.name for each in wanted)} go on",
    )


def finish(registrants: Iterable[Registrant]) -> dict[int, str]:
    """Stop all; return the schema of each ID after checking their answers."""
    schemas: dict[int, str] = {}
    ids: dict[str, set[int]] = defaultdict(set)
    for each in registrants:
        each.finish()
        print(f"{each.name}: {len(each.ids)} registered, the slowest in {each.slowest:.1f} s")
        for schema, schema_id in each.ids.items():
            assert schemas.setdefault(schema_id, schema) == schema, "an id was given twice"
            ids[schema].add(schema_id)
    assert all(len(each) == 1 for each in ids.values()), "a schema was given two ids"
    return schemas


def all_answers(registry: RegistryProcess) -> dict[str, Any]:
    """The registry's answers about everything that it has."""

    def ask(path: str) -> Any:
        answer = registry.ask("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.body

    found = {"schemas": [], "subjects": ask("/subjects")}
    while page := ask(f"/schemas?deleted=true&offset={len(found['schemas'])}"):
        found["schemas"] += page
    for subject in found["subjects"]:
        found[subject] = ask(f"/subjects/{subject}/versions")
    return found


def check_answers(registries: Sequence[RegistryProcess], schemas: dict[int, str]) -> None:
    """All registries agree with each other and with the clients' answers."""
    first, *others = map(all_answers, registries)
    assert all(other == first for other in others)
    served: dict[int, set[str]] = defaultdict(set)
    for each in first["schemas"]:
        served[each["id"]].add(each["schema"])
    assert all(len(texts) == 1 for texts in served.values()), "an id is of two schemas"
    lost = {schema_id: schema for schema_id, schema in schemas.items() if not served[schema_id]}
    assert not lost, "schemas that were acknowledged are not there"
    assert all(served[schema_id] == {schema} for schema_id, schema in schemas.items())


def check_topic(partition: Path) -> list[Identity]:
    """In the topic itself, which knows nothing of who serves it, no id is of two schemas.

    Returns who wrote each of its batches.
    """
    schemas: dict[int, str] = {}
    authors = []
    for segment in sorted(partition.glob("*.log")):
        content = segment.read_bytes()
        for position, header in headers(content):
            authors.append(Identity(header.producer_id, header.producer_epoch))
            for record in records(content[position : position + header.size]):
                written = json.loads(record.value or "{}")
                if "schema" in written:
                    known = schemas.setdefault(written["id"], written["schema"])
                    assert known == written["schema"], f"id {written['id']} is of two schemas"
    return authors
