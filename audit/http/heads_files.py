"""Makes heads files for certificates (ledger/heads_files.py), and hands them over by their digest.

    GET /api/v1/certificates/heads/{sha256}

A file has the newest heads that the database has. It is made again when an hour ends later than
they reach, at most once in `_PAUSE_S`. The last few are kept in memory, packed; a loader that asks
for one after a restart gets 404, and asks for certificates again.

One thread makes files; any thread may ask for one.
"""

import gzip
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from audit.reconciling.certified_hours import Uncertified
from audit.reconciling.picture import ExpectedAgent
from audit.service.service import Service, now_millis
from audit.store.fleet.heads import KnownAgent
from client.errors import ClientError
from ground.signatures.keys import PublicKey
from ledger.certificate_requests import time_text
from ledger.heads_files import (
    MOST_BYTES,
    Absent,
    BadHead,
    Head,
    HeadEntry,
    HeadReader,
    Heads,
    Reason,
    path_of,
    schema_ids,
    sha256_of,
)
from ledger.hour_certificates import HeadsFile
from ledger.lookup import lookup_at
from schemas.errors import SchemaError
from schemas.parsing import AvroSchema
from schemas.registry_client import RegistryClient

_KEPT: Final = 8  # files
_PAUSE_S: Final = 2.0
_REGISTRY_S: Final = 5.0


class MadeFile(msgspec.Struct, frozen=True):
    """A heads file, and what its heads say, by agent."""

    heads: Heads
    entries: dict[str, HeadEntry]
    topics: dict[str, frozenset[str]]  # by agent, also of those without a head
    absent: dict[str, Reason]
    path: str
    sha256: str
    at: float  # the monotonic time when the database was read

    def lacks(self, agent: ExpectedAgent, topic: str, end: int) -> str:
        """Why the file does not show that an agent has shipped everything before `end`; empty if it
        does, or names the agent as one that cannot."""
        reason = self.absent.get(agent.agent)
        if reason is not None and (agent.required_until is not None) == (reason is Reason.RETIRED):
            return ""
        entry = self.entries.get(agent.agent)
        if entry is None or topic not in self.topics[agent.agent]:
            return "no signed heartbeat was read yet"
        return "" if entry.until_in(topic) >= end else "its signed heartbeats do not reach so far"


class HeadsFiles:
    """The heads files of all clusters."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._newest: dict[str, MadeFile] = {}
        self._schemas: dict[tuple[str, int], AvroSchema] = {}
        self._packed: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def packed(self, sha256: str) -> bytes | None:
        """Returns a file, packed with gzip; None if it is not kept any more."""
        with self._lock:
            return self._packed.get(sha256)

    def covering(
        self, cluster: str, topic: str, agents: Sequence[ExpectedAgent], end: int
    ) -> HeadsFile:
        """Returns a file that shows that these agents have shipped everything of a topic before
        `end`. Raises Uncertified."""
        newest = self._newest.get(cluster)
        lacking = "" if newest is None else _lacking(newest, agents, topic, end)
        if newest is None or (lacking and time.monotonic() - newest.at >= _PAUSE_S):
            newest = self._newest[cluster] = self._made(cluster)
            lacking = _lacking(newest, agents, topic, end)
        if lacking:
            raise Uncertified(lacking, soon=True)
        count = sum(topic in topics for topics in newest.topics.values())
        return HeadsFile(
            path=newest.path, sha256=newest.sha256, cluster=cluster, topic=topic, agents=count
        )

    def _made(self, cluster: str) -> MadeFile:
        at, now = time.monotonic(), now_millis()
        agents = self._service.reading.heads(cluster)
        silent_before = now - int(self._service.config.expected * 1000)
        sets: dict[tuple[str, ...], int] = {}
        absent = [
            Absent(
                agent=agent.agent,
                host=agent.host,
                topics=sets.setdefault(agent.topics, len(sets)),
                reason=reason,
                words=agent.retired or "",
                heard=time_text(agent.heard),
            )
            for agent in agents
            if (reason := _why_absent(agent, silent_before)) is not None
        ]
        without_head = {agent.agent: agent.reason for agent in absent}
        with_head = [agent for agent in agents if agent.agent not in without_head]
        schemas = self._schemas_of(cluster, with_head)
        reader = HeadReader(schemas)
        entries = {agent.agent: _entry(agent, reader) for agent in with_head}
        heads = Heads(
            cluster=cluster,
            made_at=time_text(now),
            schemas={str(number): schema.resolved_text for number, schema in schemas.items()},
            heads=tuple(
                _head(agent, entries[agent.agent], sets.setdefault(agent.topics, len(sets)))
                for agent in with_head
            ),
            absent=tuple(absent),
            topic_sets=tuple(sets),
        )
        content = heads.encoded
        if len(content) > MOST_BYTES:
            raise Uncertified(f"the agents' signed heads amount to {len(content):,} bytes")
        sha256 = sha256_of(content)
        self._keep(sha256, gzip.compress(content, 1))
        topics = {agent.agent: frozenset(agent.topics) for agent in agents}
        path = path_of(heads.made_at, sha256)
        return MadeFile(heads, entries, topics, without_head, path, sha256, at)

    def _keep(self, sha256: str, packed: bytes) -> None:
        with self._lock:
            self._packed[sha256] = packed
            while len(self._packed) > _KEPT:
                self._packed.popitem(last=False)

    def _schemas_of(self, cluster: str, agents: Iterable[KnownAgent]) -> dict[int, AvroSchema]:
        """Returns the schemas of the agents' entries, by id. Raises Uncertified."""
        heads = (agent.head for agent in agents)
        numbers = schema_ids(head.value for head in heads if head is not None and head.value)
        unknown = [number for number in numbers if (cluster, number) not in self._schemas]
        if unknown:
            address = self._service.config.all_clusters[cluster].registry_address
            try:
                with RegistryClient(address, patience_seconds=_REGISTRY_S) as registry:
                    lookup = lookup_at(registry)
                    for number in unknown:
                        schema = lookup(number)
                        if schema is None:
                            raise Uncertified(f"the registry has no Avro schema {number}")
                        self._schemas[cluster, number] = schema
            except (SchemaError, ClientError) as error:
                raise Uncertified(f"the registry cannot be asked: {error}", soon=True) from None
        return {number: self._schemas[cluster, number] for number in sorted(numbers)}


def _why_absent(agent: KnownAgent, silent_before: int) -> Reason | None:
    if agent.retired is not None:
        return Reason.RETIRED
    if agent.heard < silent_before:
        return Reason.SILENT
    if agent.key is None:
        return Reason.UNSIGNED
    if agent.head is None:
        return Reason.UNKNOWN
    return Reason.TOO_LARGE if agent.head.value is None else None


def _entry(agent: KnownAgent, reader: HeadReader) -> HeadEntry:
    """Reads a head. Raises Uncertified."""
    assert agent.head is not None
    try:
        return reader.read(agent.head.value or b"")
    except BadHead as error:  # folding has read it
        raise Uncertified(f"the head of {agent.host} {error}") from None


def _head(agent: KnownAgent, entry: HeadEntry, topics: int) -> Head:
    assert agent.head is not None
    return Head(
        agent=agent.agent,
        host=entry.host,
        key=PublicKey(agent.key or b"").der,
        entry=agent.head.seq,
        until=time_text(entry.until),
        topics=topics,
        value=agent.head.value or b"",
        proof=agent.head.proof,
    )


def _lacking(file: MadeFile, agents: Iterable[ExpectedAgent], topic: str, end: int) -> str:
    """Why the file does not suffice; empty if it does. Hosts that were never heard have no agent to
    ask."""
    for agent in agents:
        if agent.agent and (why := file.lacks(agent, topic, end)):
            return f"the agent on {agent.host}: {why}"
    return ""
