"""Three logins that may write what they should not: on a topic, as the producer of an agent that
writes there, on `_audit`. What an attacker must find out first (sources, numbers, producer ids) is
read here from where it is; none of it is secret.

The login on `_audit` has a key of its own, for journals of its own and for entries in those of
others; and, where the broker is compromised, that of the broker.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, Final, NamedTuple

from client.reading.fetcher import FetchedBatch
from client.reading.offsets import offsets_at
from client.reading.partition_reader import PartitionReader
from ground.signatures import keys
from ground.signatures.keys import SigningKey
from ledger.names import LEDGER_TOPIC, VERSION
from ledger.passage_digests import digest_of_batch, digest_of_passage
from ledger.proofs import Chain
from ledger.publishing import schema_id, write_entries
from ledger.source_ids import journal_id, new_source_id
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.campaigns.attackers.site import Site
from tests.system.altered_batches import (
    emptied,
    reordered,
    with_altered_byte,
    with_crc_of,
    with_values,
)
from tests.system.raw import PRODUCE, Produced, RawConnection, produce_body, read_produced
from wire.messages.list_offsets import LATEST
from wire.record_batches.batch import NO_PRODUCER, read_header
from wire.record_batches.records import Record, build_batch, records

_DAY: Final = 86_400_000

Json = dict[str, Any]


class Victim(NamedTuple):
    """An agent, as its last batch and its last entry show it."""

    source: str
    next_seq: int
    host: str
    producer_id: int
    producer_epoch: int
    next_sequence: int


class Place(NamedTuple):
    """Events of one source at consecutive offsets of partition 0."""

    source: str
    seqs: range
    offsets: range


class Attackers:
    """Those of one run. `topic` is the one that the agent of `host` ships to."""

    def __init__(self, site: Site, topic: str, host: str) -> None:
        self.thief = f"thief-of-{host}"  # the host that own journals name
        self._site = site
        self._topic = topic
        self._host = host

    # WRITE on the topic

    def forge(self, count: int, *, back: int = 0) -> Place:
        """Sends events with the agent's next numbers, or with some that it has shipped."""
        victim = self._victim()
        seqs = range(max(0, victim.next_seq - back), max(0, victim.next_seq - back) + count)
        produced = self._send(_batch(self._events(victim, seqs, "forged")))
        offsets = range(produced.base_offset, produced.base_offset + count)
        return Place(victim.source, seqs, offsets)

    def steal(self, count: int, *, beside: bool) -> Place:
        """Sends a batch as the agent's producer."""
        victim = self._victim()
        seqs = range(victim.next_seq, victim.next_seq + count)
        stolen = _batch(
            self._events(victim, seqs, "stolen"),
            producer_id=victim.producer_id,
            producer_epoch=victim.producer_epoch,
            base_sequence=victim.next_sequence,
        )
        if beside:
            self._send(_batch([b"no event"] * 3))
        produced = self._send(stolen)
        offsets = range(produced.base_offset, produced.base_offset + count)
        return Place(victim.source, seqs, offsets)

    # WRITE on `_audit`

    def speak(self, count: int, *, signed: bool) -> None:
        """Writes the next entries of the agent's journal: it is done up to tomorrow."""
        last = self._last_entry("agent")
        entries = [heartbeat_after(last, number) for number in range(1, count + 1)]
        self._write(entries, SigningKey.new() if signed else None)

    def claim(self, place: Place) -> None:
        """Claims, in a journal of its own, that forged events are what it has shipped."""
        self._write_own(
            "agent", passages=[self._passage(place.source, place.seqs, place.offsets, b"")]
        )

    def restate(self, batch: bytes) -> None:
        """Claims the offsets of an altered batch, with its digest."""
        header = read_header(batch)
        offsets = range(header.base_offset, header.next_offset)
        digest = digest_of_passage([digest_of_batch(batch)])
        key = SigningKey.new()
        source = new_source_id(key.public)
        passage = self._passage(source, range(len(offsets)), offsets, digest)
        self._write_own("agent", key=key, passages=[passage])

    def overrule(self, sent: bytes, offsets: range) -> bool:
        """Says, with the broker's key and under a higher leader epoch, that a batch which the
        broker has altered is as the agent has sent it. False if the broker has not counted it."""
        for entry in self._entries("broker"):
            for passage in entry["passages"]:
                batches = _with_crc(passage, offsets, read_header(sent).crc)
                if passage["topic"] == self._topic and batches:
                    new_sum = sum(batch["crc"] for batch in batches)
                    old_sum = sum(batch["crc"] for batch in passage["batches"])
                    windows = [
                        {**window, "crc_sum": window["crc_sum"] + new_sum - old_sum}
                        for window in passage["windows"][:1]
                    ]
                    overruling = {
                        **passage,
                        "leader_epoch": passage["leader_epoch"] + 1,
                        "batches": batches,
                        "windows": [*windows, *passage["windows"][1:]],
                    }
                    key = SigningKey.of_file(self._site.broker.data_dir / keys.FILE_NAME)
                    self._write_own("broker", key=key, passages=[overruling])
                    return True
        return False

    def accept(self) -> None:
        """Accepts, as an operator, whatever is wrong with the topic."""
        accepted = {
            "topic": self._topic,
            "from_time": _now() - _DAY,
            "to_time": _now() + _DAY,
            "reason": "nothing is wrong",
            "operator": "somebody",
        }
        self._write_own("operator", accepted=[accepted])

    def retire(self) -> None:
        """Retires the agent's host, as an operator."""
        retired = {"host": self._host, "since": _now(), "reason": "gone", "operator": "somebody"}
        self._write_own("operator", retired=[retired])

    # What lies of the broker are made of

    def newest_batches(self) -> list[bytes]:
        """The last two batches of the agent, the newest last."""
        own = [bytes(batch.data) for batch in self._batches(self._topic) if _is_agents(batch)]
        return own[-2:]

    def shown(self, kind: str, before: bytes, batch: bytes) -> bytes:
        """Returns a batch as the loader is to see it: with the same CRC, unless it is empty."""
        match kind:
            case "dropped":
                return emptied(batch)
            case "reordered":
                shown = reordered(batch)
            case "repeated":
                shown = with_values(batch, cycle(record.value for record in records(before)))
            case "invented":
                shown = with_values(batch, self._values_like(batch, 0))
            case _:
                shown = with_altered_byte(batch)
        return with_crc_of(shown, batch)

    def invented_after(self, batch: bytes) -> bytes:
        """A batch of events that the agent might send after this one."""
        count = read_header(batch).record_count
        return _batch(self._values_like(batch, count))

    def altered_entry(self, value: bytes) -> bytes | None:
        """Returns an entry of an agent that says something else; None if there is nothing to
        alter."""
        entry = self._entry(value)
        if entry["passages"] and entry["passages"][0]["windows"]:
            entry["passages"][0]["windows"][0]["events"] += 1
        elif entry["heartbeats"]:
            entry["heartbeats"][0]["until"] += _DAY
        else:
            return None
        return self._encoded(entry)

    def invented_entry(self, value: bytes) -> bytes | None:
        """Returns an entry that the agent might have written after this one."""
        return self._encoded(heartbeat_after(self._entry(value), 1))

    def store(self, batch: bytes) -> range:
        """Appends a batch, as whoever has the broker can, and returns its offsets."""
        first = self._send(batch).base_offset
        return range(first, first + read_header(batch).record_count)

    def place_of(self, batch: bytes, offsets: range) -> Place:
        headers = [self._event(record)["header"] for record in records(batch)]
        first, last = headers[0], headers[-1]
        return Place(first["source"], range(first["seq"], last["seq"] + 1), offsets)

    # Common to all

    def _victim(self) -> Victim:
        batch = next(
            batch for batch in reversed(list(self._batches(self._topic))) if _is_agents(batch)
        )
        header = batch.header
        *_, last = records(batch.data)
        event = self._event(last)["header"]
        return Victim(
            event["source"],
            event["seq"] + 1,
            event["host"],
            header.producer_id,
            header.producer_epoch,
            header.base_sequence + header.record_count,
        )

    def _values_like(self, batch: bytes, ahead: int) -> list[bytes]:
        first = self._event(next(iter(records(batch))))["header"]
        victim = Victim(first["source"], 0, first["host"], NO_PRODUCER, -1, -1)
        begin = first["seq"] + ahead
        seqs = range(begin, begin + read_header(batch).record_count)
        return self._events(victim, seqs, "invented")

    def _events(self, victim: Victim, seqs: range, message: str) -> list[bytes]:
        now = _now()
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

    def _event(self, record: Record) -> Json:
        with RegistryClient(self._site.registry.url) as registry:
            event: Json = Decoder(registry.schema).decode(record.value or b"")
        return event

    def _entries(self, tier: str) -> list[Json]:
        """The entries of this tier that name the host or the topic, in the order of the log."""
        names = {self._host.encode(), self._topic.encode()}
        entries = [
            self._entry(record.value)
            for batch in self._batches(LEDGER_TOPIC)
            for record in records(batch.data)
            if record.value and any(name in record.value for name in names)
        ]
        return [entry for entry in entries if entry["tier"] == tier]

    def _last_entry(self, tier: str) -> Json:
        entries = [entry for entry in self._entries(tier) if entry["header"]["host"] == self._host]
        return max(entries, key=lambda entry: entry["header"]["seq"])

    def _entry(self, value: bytes) -> Json:
        with RegistryClient(self._site.registry.url) as registry:
            entry: Json = Decoder(registry.schema, built_in(LEDGER)).decode(value)
        return entry

    def _encoded(self, entry: Json) -> bytes:
        with RegistryClient(self._site.registry.url) as registry:
            return Encoder(built_in(LEDGER), schema_id(registry)).encode(entry)

    def _passage(self, source: str, seqs: range, offsets: range, digest: bytes) -> Json:
        """What an agent says of events that it has shipped, as its last entry says it of others."""
        last = next(
            passage
            for entry in reversed(self._entries("agent"))
            for passage in reversed(entry["passages"])
            if passage["topic"] == self._topic and passage["offsets"] and passage["runs"]
        )
        window, run = last["windows"][0], last["runs"][0]
        return {
            **last,
            "offsets": [{"first": offsets.start, "count": len(offsets)}],
            "windows": [{**window, "events": len(seqs)}],
            "runs": [{**run, "source": source, "seq": seqs.start, "events": len(seqs)}],
            "delays": [],
            "digest": digest,
        }

    def _write_own(self, tier: str, *, key: SigningKey | None = None, **statements: Any) -> None:
        """Writes the first entry of a new journal, signed."""
        own = key or SigningKey.new()
        is_new = key is None or tier == "agent"
        journal = journal_id(own.public) if is_new else new_source_id(SigningKey.new().public)
        header = {
            "time": _now(),
            "host": self.thief,
            "app": "penstock",
            "source": journal,
            "seq": 0,
            "position": 0,
        }
        entry = {
            "header": header,
            "version": VERSION,
            "tier": tier,
            "cluster": "test",
            "window_millis": 5_000,
            **statements,
        }
        if tier == "agent":
            entry["heartbeats"] = [{"until": _now(), "topics": [self._topic]}]
        self._write([entry], own)

    def _write(self, entries: Sequence[Mapping[str, Any]], key: SigningKey | None) -> None:
        chain = None if key is None else Chain(key)
        with self._site.brokers() as brokers, RegistryClient(self._site.registry.url) as registry:
            write_entries(brokers, registry, entries, timestamp=_now(), chain=chain)

    def _send(self, batch: bytes) -> Produced:
        with RawConnection(self._site.broker.bootstrap) as connection:
            body = produce_body(self._topic, 0, batch)
            return read_produced(connection.ask(PRODUCE, 7, body))

    def _batches(self, topic: str) -> Iterator[FetchedBatch]:
        with self._site.brokers() as brokers:
            brokers.refresh([topic])
            end = offsets_at(brokers, topic, [0], LATEST)[0]
            for batch in PartitionReader(brokers, topic, 0, 0, end):
                yield FetchedBatch(batch.partition, batch.header, memoryview(bytes(batch.data)))


def heartbeat_after(entry: Json, ahead: int) -> Json:
    """An entry with a later number: the agent is done up to tomorrow."""
    now = _now()
    header = {**entry["header"], "time": now, "seq": entry["header"]["seq"] + ahead}
    return {
        "header": header,
        "version": VERSION,
        "tier": "agent",
        "cluster": "test",
        "window_millis": 5_000,
        "heartbeats": [{"until": now + _DAY - now % 5_000, "topics": []}],
    }


def _with_crc(passage: Json, offsets: range, crc: int) -> list[Json]:
    """The passage's batches, that at these offsets with another CRC; none if it is not there."""
    batches: list[Json] = []
    at = passage["offsets"][0]["first"] if passage["offsets"] else -1
    is_there = False
    for batch in passage["batches"]:
        at += batch["skipped"]
        is_it = range(at, at + batch["count"]) == offsets
        is_there |= is_it
        batches.append({**batch, "crc": crc} if is_it else batch)
        at += batch["count"]
    return batches if is_there else []


def _is_agents(batch: FetchedBatch) -> bool:
    return batch.header.producer_id != NO_PRODUCER


def _now() -> int:
    return time.time_ns() // 1_000_000


def _batch(values: Sequence[bytes], **producer: Any) -> bytes:
    now = _now()
    return build_batch(
        [Record(at, now, None, value) for at, value in enumerate(values)], **producer
    )
