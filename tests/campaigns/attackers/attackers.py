"""Three logins that may write what they should not: on a topic, as the producer of an agent that
writes there, on `_audit`. What an attacker must find out first (sources, numbers, producer ids) is
read here from where it is; none of it is secret."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from client.reading.fetcher import FetchedBatch
from client.reading.offsets import offsets_at
from client.reading.partition_reader import PartitionReader
from ledger.names import VERSION
from ledger.publishing import write_entries
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.campaigns.attackers.site import LEDGER as LEDGER_TOPIC
from tests.campaigns.attackers.site import Site
from tests.system.raw import PRODUCE, RawConnection, produce_body, read_produced
from wire.messages.list_offsets import LATEST
from wire.record_batches.records import Record, build_batch, records

AGENT: Final = "penstock-agent"
_DAY: Final = 86_400_000


class Victim(NamedTuple):
    """An agent, as its last batch and its last entry show it."""

    source: str
    next_seq: int
    host: str
    producer_id: int
    producer_epoch: int
    next_sequence: int


class Attackers:
    def __init__(self, site: Site, topic: str) -> None:
        self._site = site
        self._topic = topic

    def forge(self, count: int, *, back: int = 0) -> bool:
        """Whether the broker took it."""
        victim = self._victim()
        first = max(0, victim.next_seq - back)
        values = self._events(victim, range(first, first + count), "forged")
        return self._send(_batch(values))

    def steal(self, count: int, *, beside: bool) -> bool:
        victim = self._victim()
        numbers = range(victim.next_seq, victim.next_seq + count)
        stolen = _batch(
            self._events(victim, numbers, "stolen"),
            producer_id=victim.producer_id,
            producer_epoch=victim.producer_epoch,
            base_sequence=victim.next_sequence,
        )
        if beside:
            self._send(_batch([b"no event"] * 3))
        return self._send(stolen)

    def speak(self, count: int, host: str) -> bool:
        """Whether the agent had an entry by then."""
        with self._site.brokers() as brokers, RegistryClient(self._site.registry.url) as registry:
            decoder = Decoder(registry.schema, built_in(LEDGER))
            entries = [
                decoder.decode(each.value)
                for batch in self._batches(LEDGER_TOPIC)
                for each in records(batch.data)
                if each.value and host.encode() in each.value
            ]
            mine = [each for each in entries if each["tier"] == "agent"]
            if not mine:
                return False
            last = max(mine, key=lambda each: each["header"]["seq"])
            now = time.time_ns() // 1_000_000
            until = now + _DAY - now % 5_000
            header = {**last["header"], "time": now}
            forged: list[dict[str, Any]] = [
                {
                    "header": {**header, "seq": header["seq"] + 1 + at},
                    "version": VERSION,
                    "tier": "agent",
                    "cluster": "test",
                    "window_millis": 5_000,
                    "heartbeats": [{"until": until, "topics": []}],
                }
                for at in range(count)
            ]
            write_entries(brokers, registry, forged, timestamp=now)
        return True

    def _victim(self) -> Victim:
        batch = next(
            each
            for each in reversed(list(self._batches(self._topic)))
            if each.header.producer_id >= 0
        )
        header = batch.header
        *_, last = records(batch.data)
        with RegistryClient(self._site.registry.url) as registry:
            event = Decoder(registry.schema).decode(last.value or b"")["header"]
        return Victim(
            event["source"],
            event["seq"] + 1,
            event["host"],
            header.producer_id,
            header.producer_epoch,
            header.base_sequence + header.record_count,
        )

    def _events(self, victim: Victim, seqs: range, message: str) -> list[bytes]:
        now = time.time_ns() // 1_000_000
        with RegistryClient(self._site.registry.url) as registry:
            known = registry.latest(f"{self._topic}-value")
        assert known is not None
        encoder = Encoder(parse(known.text), known.id)
        return [
            encoder.encode(
                {
                    "header": {
                        "time": now,
                        "host": victim.host,
                        "app": "shop",
                        "source": victim.source,
                        "seq": seq,
                        "position": seq,
                    },
                    "message": f"{message} {seq}",
                }
            )
            for seq in seqs
        ]

    def _send(self, batch: bytes) -> bool:
        with RawConnection(self._site.broker.bootstrap) as connection:
            body = produce_body(self._topic, 0, batch)
            return read_produced(connection.ask(PRODUCE, 7, body)).error == 0

    def _batches(self, topic: str) -> Iterator[FetchedBatch]:
        with self._site.brokers() as brokers:
            brokers.refresh([topic])
            end = offsets_at(brokers, topic, [0], LATEST)[0]
            for batch in PartitionReader(brokers, topic, 0, 0, end):
                yield FetchedBatch(batch.partition, batch.header, memoryview(bytes(batch.data)))


def _batch(values: Sequence[bytes], **producer: Any) -> bytes:
    now = time.time_ns() // 1_000_000
    return build_batch(
        [Record(at, now, None, value) for at, value in enumerate(values)], **producer
    )
