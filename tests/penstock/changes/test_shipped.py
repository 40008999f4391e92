"""`penstock changes --topic`: what agents have shipped, by the schema that the docs have for it."""

import re
import shlex
from pathlib import Path

from confluent_kafka import Producer

from ground.administration import read_entry
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from schemas.envelope import Encoder
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.penstock.changes.test_changes import LINES
from tests.penstock.running import At, penstock
from tests.schemas.events import header

DOCS = Path(__file__).resolve().parents[3] / "docs" / "administration.md"


def documented_schema(topic: str, folder: Path) -> str:
    """As the command of the docs writes it."""
    command = re.compile(r"^penstock (schemas new .*?[^\\])$", re.MULTILINE | re.DOTALL)
    found = command.search(DOCS.read_text())
    assert found is not None
    words = shlex.split(found[1].replace("\\\n", " "))
    made = penstock(*[topic if word == "administration" else word for word in words],
                    "--dir", str(folder))  # fmt: skip
    assert made.returncode == 0, made.stderr
    return (folder / f"{topic}-value.avsc").read_text()


def test_what_was_shipped_is_shown(
    at: At,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
    tmp_path: Path,
) -> None:
    schema = parse(documented_schema(new_topic, tmp_path))
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", schema.text)
    at.output("topics", "create", new_topic, "--partitions", "2")
    producer = Producer({"bootstrap.servers": running_broker.bootstrap})
    encoder = Encoder(schema, schema_id)
    for number, line in enumerate(LINES):
        entry = read_entry(line)
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "time"}
        millis = 1_795_338_000_000 + number * 60_000
        event = {"header": {**header(), "time": millis}, **fields}
        producer.produce(new_topic, encoder.encode(event), partition=number % 2, timestamp=millis)
    producer.produce(new_topic, b"no event", partition=0, timestamp=1_795_338_000_000)
    producer.flush(30)

    asked = ["changes", "--topic", new_topic, "--registry", running_registry.url]
    ended = at.run(*asked)
    assert ended.returncode == 0, ended.stderr
    assert "1 that are no entries" in ended.stderr
    shown = [line.split()[1] for line in ended.stdout.splitlines()[1:]]
    assert shown == ["09:00:00", "09:01:00", "09:02:00", "09:03:00", "09:04:00"]
    since = at.run(*asked, "--since", "2026-11-22T09:03:00Z", "--json")
    assert len(since.stdout.splitlines()) == 2
