"""The agent's part of the ledger: what is said of batches, files and times, and when.

Statements stay in the journal until the entry that makes them is acknowledged itself; an entry is
journalled before it is sent, with its number, so that repeating it changes nothing. One batch of
entries is on its way at a time. Nobody waits for the ledger.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from agent.config import AgentConfig
from agent.journal.journal import Journal
from agent.ledger.entries import Draft, drafts, entry
from agent.ledger.heartbeats_said import Heartbeats
from agent.parcels import Cargo, Outgoing, Parcel
from agent.topic_schemas.values import TopicSchema
from client.connection import SOFTWARE_VERSION
from client.delivery import Batch, TopicPartition
from schemas.envelope import Encoder
from wire.compression import Codec
from wire.records import Record, build_batch

APP: Final = "penstock-agent"
PATH_SECONDS: Final = 3600.0


class Ledger:
    """The shipping thread's, but for `heartbeat`."""

    def __init__(
        self, config: AgentConfig, journal: Journal, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._journal = journal
        self._clock = clock
        self._window_millis = config.window * 1000
        self._heartbeats = Heartbeats(self._window_millis, SOFTWARE_VERSION)
        self._told: tuple[Mapping[str, int], int] | None = None
        self._paths_said: dict[str, float] = {}
        self._encoder: Encoder | None = None
        self._encoder_id = -1
        self._due = clock() + config.ledger_interval

    def heartbeat(self, until: Mapping[str, int], lag_bytes: int) -> None:
        """Up to when everything of each topic is acknowledged, in milliseconds. Any thread."""
        self._told = until, lag_bytes

    @property
    def next_time(self) -> float:
        return self._due

    def has_more(self) -> bool:
        """Whether there is anything to be said."""
        self._take_heartbeat()
        return self._heartbeats.due or self._journal.sizes.statements > 0

    def entries(
        self, target: TopicPartition, schema: TopicSchema, now_millis: int, *, hurry: bool = False
    ) -> Outgoing | None:
        """What is to be said now, in the journal already; None if it is nothing, or not time yet.

        Whoever gets one does not come again before it is acknowledged. Raises JournalFull.
        """
        now = self._clock()
        if not hurry and now < self._due:
            return None
        self._take_heartbeat()
        statements = self._journal.unpublished
        paths: dict[str, float] = {}
        found = drafts(statements, lambda source: self._path(source, paths, now), self._topic_id)
        heartbeats = self._heartbeats.statements(now) if self._heartbeats.due else []
        if heartbeats:
            found.append(Draft({"heartbeats": heartbeats}, ()))
        self._due = now + self._config.ledger_interval
        if not found:
            return None
        outgoing = self._outgoing(found, target, schema, now_millis)
        self._journal.parcel(Parcel([outgoing], (), {}))
        recent = {each: at for each, at in self._paths_said.items() if now - at < PATH_SECONDS}
        self._paths_said = recent | paths
        if heartbeats:
            self._heartbeats.said(heartbeats, now)
        if len(outgoing.covers) < len(statements):
            self._due = now
        return outgoing

    def _take_heartbeat(self) -> None:
        told, self._told = self._told, None
        if told is not None:
            self._heartbeats.tell(*told)

    def _outgoing(
        self, found: list[Draft], target: TopicPartition, schema: TopicSchema, now_millis: int
    ) -> Outgoing:
        if self._encoder is None or schema.id != self._encoder_id:
            self._encoder, self._encoder_id = Encoder(schema.schema, schema.id), schema.id
        records = []
        for at, draft in enumerate(found):
            header = {
                "time": now_millis,
                "host": self._config.host_name,
                "app": APP,
                "source": self._journal.agent_id,
                "seq": self._journal.ledger_seq + at,
                "position": 0,
            }
            value = self._encoder.encode(
                entry(
                    draft.lists,
                    header,
                    cluster=self._config.cluster,
                    window_millis=self._window_millis,
                )
            )
            records.append(Record(at, now_millis, None, value))
        codec = Codec[self._config.batches.compression.name]
        return Outgoing(
            number=self._journal.next_number(),
            cargo=Cargo.LEDGER,
            batch=Batch(target, build_batch(records, codec=codec, leader_epoch=-1)),
            covers=tuple(number for draft in found for number in draft.covers),
        )

    def _path(self, source: str, said: dict[str, float], now: float) -> str:
        """Once an hour."""
        before = said.get(source, self._paths_said.get(source, -PATH_SECONDS))
        if now - before < PATH_SECONDS:
            return ""
        known = self._journal.known_source(source)  # type: ignore[arg-type]
        said[source] = now
        return known.path if known else ""

    def _topic_id(self, topic: str) -> str:
        chosen = self._journal.chosen(topic)
        return chosen.topic_id if chosen else ""
