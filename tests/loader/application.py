"""Applications whose events are loaded: schemas that grow, sources that count, several partitions.

What was written is remembered, so that what landed can be held against it.
"""

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from schemas.envelope import Encoder
from schemas.event_schemas import HEADER, built_in
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from wire.record_batches.records import Codec

BEGAN: Final = 1_763_622_000_000  # 2025-11-20, 07:00 UTC
HOUR: Final = 3_600_000

Json = dict[str, Any]
VIEW: Final[tuple[Json, ...]] = (
    {"name": "user", "type": "string"},
    {"name": "url", "type": "string"},
    {"name": "status", "type": "int"},
    {"name": "millis", "type": "double"},
)


def event_schema(fields: Iterable[Json] = VIEW, name: str = "shop.PageView") -> str:
    """The text of an event's schema."""
    header = {"name": "header", "type": json.loads(built_in(HEADER).text)}
    return json.dumps({"type": "record", "name": name, "fields": [header, *fields]})


class Application:
    """Writes events of one topic, as an agent would: a source counts its events."""

    def __init__(
        self,
        brokers: str,
        registry: str,
        topic: str,
        *,
        partitions: int = 1,
        schema: str | None = None,
        codec: Codec = Codec.ZSTD,
    ) -> None:
        self.topic = topic
        self._codec = codec
        self.written: list[tuple[str, int]] = []  # source and seq of every event, once
        self._brokers = Brokers(Bootstrap.of(brokers))
        self._registry = RegistryClient(registry)
        create_topic(self._brokers, topic, partitions=partitions)
        self._producer = Producer(self._brokers, topic, codec=codec)
        self._seqs: dict[str, int] = {}
        self.source = uuid.uuid4().hex
        self.change(schema or event_schema())

    def close(self) -> None:
        self._brokers.close()
        self._registry.close()

    def begin_anew(self) -> None:
        """As after a restart: what it goes on with is numbered from 0, under another id."""
        self._producer = Producer(self._brokers, self.topic, codec=self._codec)

    def change(self, schema: str) -> int:
        """From now on events are of this schema, whose id is returned."""
        schema_id = self._registry.register(f"{self.topic}-value", schema)
        self._encoder = Encoder(parse(schema, strict=False), schema_id)
        return schema_id

    def header(self, time: int, source: str, seq: int) -> Json:
        return {
            "time": time,
            "host": "web-1",
            "app": "shop",
            "source": source,
            "seq": seq,
            "position": seq * 200,
        }

    def view(self, seq: int) -> Json:
        """The fields of `VIEW`."""
        return {"user": f"u{seq % 7}", "url": f"/item/{seq}", "status": 200, "millis": seq / 8}

    def write(
        self,
        count: int,
        *,
        time: int = BEGAN,
        step: int = 1,
        partition: int = 0,
        source: str | None = None,
        fields: Json | None = None,
    ) -> list[tuple[str, int]]:
        """So many events, the first at this time, each so many milliseconds after the last."""
        source = source or f"{self.source}-{partition}"
        first = self._seqs.get(source, 0)
        self._seqs[source] = first + count
        events = [(source, seq) for seq in range(first, first + count)]
        for place, (_, seq) in enumerate(events):
            self.send(time + place * step, source, seq, partition=partition, fields=fields)
        self.flush()
        self.written += events
        return events

    def send(
        self, time: int, source: str, seq: int, *, partition: int = 0, fields: Json | None = None
    ) -> None:
        """One event, which is not remembered."""
        event = {"header": self.header(time, source, seq), **(fields or self.view(seq))}
        self._producer.send(self._encoder.encode(event), partition=partition, timestamp=time)

    def send_bytes(self, value: bytes | None, *, time: int = BEGAN, partition: int = 0) -> None:
        """Whatever it is."""
        self._producer.send(value, partition=partition, timestamp=time)

    def flush(self) -> None:
        self._producer.flush()


def landed(rows: Sequence[Any]) -> list[tuple[str, int]]:
    """Source and seq of every row, ordered."""
    return sorted((row["source"], row["seq"]) for row in rows)
