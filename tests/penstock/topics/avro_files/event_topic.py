"""A topic of events with a registry, as both commands have them."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from schemas.envelope import Encoder
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.penstock.running import At, Ended, Running


class EventTopic:
    """A topic of one partition, whose subject a registry has."""

    def __init__(self, name: str, at: At, client: RegistryClient, registry: str) -> None:
        self.name = name
        self.at = at
        self.client = client
        self.registry = registry
        self.subject = f"{name}-value"

    def register(self, schema: Any) -> int:
        """The schema's id."""
        return self.client.register(self.subject, json.dumps(schema))

    def write(self, schema: Any, *events: Any) -> int:
        """Registers the schema, if need be, and sends events with it."""
        schema_id = self.register(schema)
        encode = Encoder(parse(json.dumps(schema)), schema_id).encode
        self.send(*map(encode, events))
        return schema_id

    def send(self, *messages: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": self.at.bootstrap})
        for each in messages:
            producer.produce(self.name, each, partition=0)
        producer.flush(30)

    def consuming(self, *arguments: str, registry: str = "") -> list[str]:
        """The arguments of a consumer of all of it, but for where brokers are."""
        where = ["--registry", registry or self.registry]
        return ["consume", self.name, "--from", "beginning", *arguments, *where]

    def consume(self, *arguments: str, registry: str = "") -> Ended:
        return self.at.run(*self.consuming(*arguments, registry=registry))

    def consumes(self, *arguments: str, registry: str = "") -> AbstractContextManager[Running]:
        """One that goes on."""
        return self.at.running(*self.consuming(*arguments, registry=registry))

    def produce(self, *arguments: str) -> Ended:
        return self.at.run("produce", self.name, *arguments, "--registry", self.registry)

    def documents(self) -> list[Any]:
        """What is on it, with partitions, offsets and times."""
        ended = self.consume("--to-end", "--events", "--json")
        assert (ended.returncode, ended.stderr) == (0, "")
        return [json.loads(each) for each in ended.stdout.splitlines()]

    def events(self) -> list[Any]:
        return [each["event"] for each in self.documents()]


def into(path: Path) -> list[str]:
    return ["--to-end", "--avro-file", str(path)]
