"""Agents that sign heartbeats, and the heads files that an audit makes of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from ground.signatures.keys import SigningKey
from ledger.certificate_requests import time_text
from ledger.heads_files import Head, Heads, path_of, sha256_of
from ledger.hour_certificates import HeadsFile
from ledger.proofs import Chain
from ledger.source_ids import journal_id
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from tests.ledger.said import entry

HOSTS: Final = ("web-1", "web-2", "web-3")
SCHEMA_ID: Final = 7
CLUSTER: Final = "dc1"
MINUTE: Final = 60_000


class SignedAgent:
    """One agent with its key; it numbers and signs its entries."""

    def __init__(self, host: str, topics: Sequence[str]) -> None:
        self.host = host
        self.topics = topics
        self.key = SigningKey.new()
        self.id = journal_id(self.key.public)
        self._chain = Chain(self.key)
        self._seq = -1

    def head(self, until: int, *, topics: int = 0, **changes: Any) -> Head:
        """Its next heartbeat. The changes are of the entry."""
        self._seq += 1
        named = self.topics if self._seq == 0 else ()
        content = entry(self.id, self._seq, (until, named), host=self.host, time=until + 1_000)
        value = Encoder(built_in(LEDGER), SCHEMA_ID).encode(content | changes)
        return Head(
            agent=self.id,
            host=self.host,
            key=self.key.public.der,
            entry=self._seq,
            until=time_text(until),
            topics=topics,
            value=value,
            proof=self._chain.prove(value, 0.0).encoded,
        )


class Fleet:
    """The agents of a cluster, all of which ship to the same topics."""

    def __init__(self, topics: Sequence[str], hosts: Sequence[str] = HOSTS) -> None:
        self.topics = tuple(topics)
        self.agents = [SignedAgent(host, self.topics) for host in hosts]
        self._heads: dict[int, Heads] = {}

    def heads(self, until: int) -> Heads:
        """Of a minute after a time, up to which nothing is missing then; always the same ones."""
        if until not in self._heads:
            self._heads[until] = self.next_heads(until)
        return self._heads[until]

    def next_heads(self, until: int) -> Heads:
        return Heads(
            cluster=CLUSTER,
            made_at=time_text(until + MINUTE),
            schemas={str(SCHEMA_ID): built_in(LEDGER).resolved_text},
            topic_sets=(self.topics,),
            heads=tuple(agent.head(until) for agent in self.agents),
        )

    def write_public(self, keys: Path) -> None:
        (keys / "agent").mkdir()
        for agent in self.agents:
            (keys / "agent" / f"{agent.host}.pub").write_bytes(agent.key.public.pem)


def written(root: Path, heads: Heads, topic: str) -> HeadsFile:
    """Writes a heads file, and returns what a certificate of the topic says of it."""
    content = heads.encoded
    sha256 = sha256_of(content)
    path = path_of(heads.made_at, sha256)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    agents = sum(heads.ships(agent, topic) for agent in heads.agents)
    return HeadsFile(path=path, sha256=sha256, cluster=CLUSTER, topic=topic, agents=agents)


def with_head(heads: Heads, head: Head) -> Heads:
    """With this head instead of that of the same host."""
    return replace(
        heads, heads=tuple(head if head.host == old.host else old for old in heads.heads)
    )


def without_host(heads: Heads, host: str) -> Heads:
    return replace(heads, heads=tuple(head for head in heads.heads if head.host != host))
