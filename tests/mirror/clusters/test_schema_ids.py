"""Ids of schemas, where several registries' are copied to."""

import contextlib
import json
from pathlib import Path

from msgspec.structs import replace

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from client.reading.fetcher import FetchedBatch, Fetcher
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from mirror.clusters.schema_ids import SchemaIds, schemas_in
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import batches, ends, values, wait_copied, write
from tests.mirror.workers import partition_of
from wire.record_batches.records import Codec, Record, build_batch


def written(topic: str, *said: tuple[str, object], codec: Codec = Codec.NONE) -> dict[int, str]:
    """What ids stand for, by records with these keys and values."""
    made = [
        Record(number, 0, json.dumps({"keytype": kind}).encode(), json.dumps(value).encode())
        for number, (kind, value) in enumerate(said)
    ]
    batch = memoryview(build_batch(made, codec=codec))
    return {number: str(schema) for number, schema in schemas_in(topic, batch)}


def version(number: int, subject: str = "views", text: str = '"int"', **more: object) -> object:
    return {"subject": subject, "version": 1, "id": number, "schema": text, **more}


def contents(*values: object, topic: str = "dc1._schemas") -> list[int]:
    made = [Record(0, 0, b'{"keytype":"SCHEMA"}', json.dumps(each).encode()) for each in values]
    return [each.content for _, each in schemas_in(topic, memoryview(build_batch(made)))]


def test_versions_and_nothing_else() -> None:
    said = [
        ("SCHEMA", version(7)),
        ("CONFIG", {"compatibilityLevel": "NONE"}),
        ("SCHEMA", None),
        ("SCHEMA", {"id": 9}),
        ("SCHEMA", version(8, ":.other:views")),
        ("NOOP", {"highestId": 12}),
    ]
    for codec in (Codec.NONE, Codec.ZSTD):
        found = written("dc1._schemas", *said, codec=codec)
        assert found == {7: "version 1 of views in dc1._schemas"}


def test_what_makes_two_schemas_one() -> None:
    one, other = contents(version(1)), contents(version(2, "other", deleted=True), topic="x")
    assert one == other == contents(version(1, schemaType="AVRO"))
    assert one != contents(version(1, text='"long"'))
    assert one != contents(version(1, schemaType="JSON"))
    refers = version(1, references=[{"name": "C", "subject": "common", "version": 1}])
    assert contents(refers) == contents(refers)
    assert contents(refers) != contents(refers, topic="dc2._schemas")  # their `common` is another


class HesitantFetcher(Fetcher):
    """Gets nothing at first, as when a leader has just moved."""

    has_hesitated = False

    def poll(self, seconds: float) -> list[FetchedBatch]:
        if not HesitantFetcher.has_hesitated:
            HesitantFetcher.has_hesitated = True
            return []
        return super().poll(seconds)


def test_nothing_is_copied_while_a_registrys_topic_was_not_read_to_its_end(
    here: Brokers, new_topic: str
) -> None:
    dc2 = f"dc2.{new_topic}._schemas"
    admin.create_topic(here, dc2, partitions=1)
    producer = Producer(here, dc2)
    said = json.dumps(version(7, "clicks", '"long"')).encode()
    producer.send(said, key=b'{"keytype":"SCHEMA"}', partition=0)
    producer.flush()
    ids = SchemaIds("dc1._schemas", HesitantFetcher)

    def fault(number: int) -> str:
        made = Record(0, 0, b'{"keytype":"SCHEMA"}', json.dumps(version(number)).encode())
        return ids.fault(memoryview(build_batch([made])))

    assert fault(8)  # nothing was looked at yet
    known = admin.all_topics(here)  # of others' registries, too, if other tests came before
    known = replace(known, topics={dc2: known.topics[dc2]})
    ids.look(here, known)
    assert fault(8) == fault(7) != ""
    assert f"{dc2} are unknown: not read to its end" in fault(8)
    ids.look(here, known)
    assert fault(8) == ""
    assert "schema id 7 is version 1 of views" in fault(7)


def test_an_id_of_two_registries_stops_the_copy_before_it_is_there(  # noqa: PLR0917
    tmp_path: Path,
    source: BrokerProcess,
    target: BrokerProcess,
    there: Brokers,
    here: Brokers,
    new_topic: str,
    new_worker: NewWorker,
) -> None:
    """One registry is the source's; that of another datacenter has been copied to the target."""
    dc2 = f"dc2.{new_topic}._schemas"
    with contextlib.ExitStack() as ends_:
        of_dc1 = ends_.enter_context(RegistryProcess(tmp_path / "dc1", brokers=source.bootstrap))
        of_dc2 = ends_.enter_context(
            RegistryProcess(
                tmp_path / "dc2",
                brokers=target.bootstrap,
                settings={"topic": dc2, "id_base": 2},
            )
        )
        assert of_dc1.register("views", "int").body["id"] == 1
        assert of_dc2.register("clicks", "long").body["id"] == 2
        admin.create_topic(there, new_topic)
        mirror = ends_.enter_context(new_worker(schemas=True))
        wait_copied(there, here, "_schemas")
        assert batches(here, "dc1._schemas") == batches(there, "_schemas")
        before = ends(there, "_schemas")
        assert of_dc1.register("orders", "string").body["id"] == 2

        def said() -> str:
            found = partition_of(mirror, "dc1._schemas")
            return str(found["trouble"]) if found.get("stage") == "stopped" else ""

        wait_until(lambda: bool(said()), what="it stops")
        assert "schema id 2 is version 1 of orders in dc1._schemas" in said()
        assert f"version 1 of clicks in {dc2}" in said()
        assert ends(here, "dc1._schemas")[0] <= ends(there, "_schemas")[0] - 1
        assert ends(here, "dc1._schemas")[0] >= before[0]
        write(there, new_topic, values(0, 10))
        wait_copied(there, here, new_topic)
