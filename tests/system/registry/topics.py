"""Topics of registries as dumps hold them: records with key and value as text; and messages with
schemas, put into topics and taken out again by librdkafka, as bytes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from tests.system.clients.interface import Record as Message
from tests.system.clients.librdkafka import Librdkafka

CONFLUENTS = Path(__file__).resolve().parents[2] / "registry" / "interface" / "schemas-topic.jsonl"
COMPACTED = {"cleanup.policy": "compact"}

Record = tuple[str, str | None]


def confluents_dump() -> list[Record]:
    """All that a Confluent registry wrote while it gave the answers of the interface's table."""
    lines = CONFLUENTS.read_text().splitlines()
    return [(each["key"], each["value"]) for each in map(json.loads, lines)]


def make_topic(
    bootstrap: str,
    topic: str,
    records: Iterable[Record] = (),
    *,
    partitions: int = 1,
    configs: Mapping[str, str] = COMPACTED,
) -> None:
    """Creates it and writes these."""
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        admin.create_topic(brokers, topic, partitions=partitions, configs=dict(configs))
        producer = Producer(brokers, topic, create=False)
        for key, value in records:
            producer.send(None if value is None else value.encode(), key.encode())
        producer.flush()


def schema_record(subject: str, version: int, schema_id: int, schema: str) -> Record:
    """As Confluent's registry writes a version."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": schema_id, "schema": schema}
    return json.dumps(key), json.dumps({**value, "deleted": False})


class Dumped:
    """What the records of a dump come to, worked out in the plainest way.

    Subjects of other contexts than the default one have ids of their own, and are left out.
    """

    def __init__(self, dump: Iterable[Record]) -> None:
        self.versions: dict[str, dict[int, dict[str, Any]]] = {}
        self.levels: dict[str, str | None] = {}  # "" is all subjects
        self.modes: dict[str, str] = {}
        for key, value in dump:
            read = json.loads(key)
            if not read.get("subject", "").startswith(":."):
                self._take(read, json.loads(value or "{}"))

    def _take(self, key: dict[str, Any], value: dict[str, Any]) -> None:
        subject = key.get("subject", "")
        of_subject = self.versions.setdefault(subject, {})
        match key["keytype"]:
            case "SCHEMA" if value:
                of_subject[key["version"]] = value
            case "SCHEMA":
                of_subject.pop(key["version"], None)
            case "DELETE_SUBJECT":
                for number, version in of_subject.items():
                    version["deleted"] |= number <= value["version"]
            case "CLEAR_SUBJECT":
                for name in [subject] if subject else self.versions:
                    self.versions[name] = self.live(name)
            case "CONFIG" if value:
                self.levels[subject] = value.get("compatibilityLevel")
            case "CONFIG":
                self.levels.pop(subject, None)
            case "MODE" if value:
                self.modes[subject] = value["mode"]
            case "MODE":
                self.modes.pop(subject, None)

    def live(self, subject: str) -> dict[int, dict[str, Any]]:
        found = sorted(self.versions[subject].items())
        return {number: version for number, version in found if not version["deleted"]}

    @property
    def subjects(self) -> list[str]:
        return sorted(name for name in self.versions if self.live(name))

    @property
    def ids(self) -> dict[int, str]:
        """The schema of each id that a version has, deleted or not."""
        return {
            version["id"]: version.get("schema", "")
            for versions in self.versions.values()
            for version in versions.values()
        }


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    """Into a topic that is created if need be; returns when the broker has them."""
    Librdkafka().produce(bootstrap, topic, 0, [Message(value) for value in values])


def receive(bootstrap: str, topic: str, count: int) -> Sequence[bytes]:
    """The first so many."""
    consumed = Librdkafka().consume(bootstrap, topic, 0, "beginning", count)
    values = [each.record.value for each in consumed]
    assert None not in values
    return [value for value in values if value is not None]
