"""Publishes the agent's ledger entries: about batches, files, unwatched periods, heartbeats, and
its own health.

Unwatched times are published first, and no heartbeat before all of them: a heartbeat is a promise
up to its time, from which these times must be excepted first.

Statements stay in the journal until their entry is acknowledged; an entry is journalled with its
number before it is sent, so that repeating it changes nothing. Entries are acknowledged before more
are made. Nothing waits for the ledger.

If the journal cannot take or flush entries, the same ones are journalled again, until they are on
disk: some of them may be in its file already, under their numbers.

An entry that cannot be encoded, or that `_audit` refuses as too large although it has a single
statement, is left out and logged; the others are published.

The file of a source is published when the source is first mentioned, when twice as much or all of
its head is known, and when it moves to another file. This is not journalled: after a restart it is
published again, which changes nothing.

There is one heartbeat a window, also while no topic gets any further, as when an input cannot be
read: an agent that is not heard counts as silent. Topics are named only as needed: a time is
rounded down to the beginning of its window, the precision that readers use, so topics in the same
window share one statement.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.accounting.parcels import BatchKind, Eventless, Outgoing, Parcel
from agent.accounting.runs import KnownSource, SourceId
from agent.configuration.config import AgentConfig
from agent.encoding.topic_schemas.values import TopicSchema
from agent.journal.journal import Journal
from agent.journal.state import NotSeen, Statement
from agent.recognition.identity import FULL
from agent.shipping.ledger.entries import Draft, Json, drafts, entry, file_json
from client.connection.connection import SOFTWARE_VERSION
from client.producing.delivery import Batch, TopicPartition
from ground.printable import path_text
from ledger.health import Health, HealthProbe, HealthReports, Problem
from ledger.proofs import HEADER, Chain
from schemas.envelope import Encoder
from schemas.errors import BadMessage
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch

APP: Final = "penstock-agent"
PATH_SECONDS: Final = 3600.0
MOST_BYTES: Final = 256 * 1024  # of an entry, about
MOST_ENTRIES: Final = 4  # at once
_FEW_FILES: Final = 100
_UNHEARD_SECONDS: Final = 0.2  # interval of an agent without entries so far

log = logging.getLogger(__name__)


_AT_ONCE: Final = 500
_MOST: Final = 50_000


NAMED_SECONDS: Final = 3600.0


class Heartbeats:
    """The latest heartbeats, and those published already. Belongs to one thread."""

    def __init__(self, window_millis: int, program_version: str) -> None:
        self._window_millis = window_millis
        self._version = program_version
        self._until: dict[str, int] = {}
        self._lag_bytes = -1
        self._said: dict[str, int] = {}
        self._named: frozenset[str] = frozenset()
        self._named_at = -NAMED_SECONDS
        self._said_at = 0.0

    def tell(self, until: Mapping[str, int], lag_bytes: int) -> None:
        """Sets the times up to which topics are acknowledged, in milliseconds. The agent no longer
        ships to topics that are left out."""
        self._until = {
            topic: millis - millis % self._window_millis for topic, millis in until.items()
        }
        self._lag_bytes = lag_bytes

    @property
    def has_news(self) -> bool:
        """Whether a heartbeat was not published yet."""
        return self._until != self._said

    def is_due(self, now: float) -> bool:
        """Whether one is to be published: it is new, or the last is a window old."""
        is_old = now - self._said_at >= self._window_millis / 1000
        return self.has_news or (bool(self._until) and is_old)

    def statements(self, now: float) -> list[Json]:
        """The heartbeats to publish now; call `journalled` once the journal has them."""
        if not self._until:
            return []
        topics_by_millis: dict[int, list[str]] = defaultdict(list)
        for topic, millis in sorted(self._until.items()):
            topics_by_millis[millis].append(topic)
        names = frozenset(self._until)
        is_named = names == self._named and now - self._named_at < NAMED_SECONDS
        if is_named and len(topics_by_millis) == 1:
            return [{"until": next(iter(topics_by_millis)), "lag_bytes": self._lag_bytes}]
        return [
            {
                "until": millis,
                "topics": topics,
                "lag_bytes": self._lag_bytes,
                "program_version": self._version,
            }
            for millis, topics in sorted(topics_by_millis.items())
        ]

    def journalled(self, statements: list[Json], now: float) -> None:
        self._said, self._said_at = dict(self._until), now
        if statements and "topics" in statements[0]:
            self._named, self._named_at = frozenset(self._until), now


class PublishedFiles:
    """Decides when the files of sources are published. Belongs to the ledger's thread."""

    def __init__(self, known_source: Callable[[SourceId], KnownSource | None]) -> None:
        self._known_source = known_source
        self._said: dict[str, tuple[int, int, int]] = {}  # device, inode, bytes of the head
        self._now: dict[str, tuple[int, int, int]] = {}

    def to_publish(
        self, entries: Iterable[Json], moved: Iterable[SourceId] = ()
    ) -> list[list[Json]]:
        """The files to publish for the sources in these entries, and for the sources that moved to
        another file, which may never be mentioned again. Each part is for one entry."""
        self._now = {}
        files = []
        for source, is_over in (dict.fromkeys(moved, True) | _sources_in(entries)).items():
            known_source = self._known_source(SourceId(source))
            if known_source is None:
                continue
            state = known_source.device, known_source.inode, known_source.fingerprint.size
            if self._is_news(self._said.get(source), state, is_over=is_over):
                self._now[source] = state
                files.append(file_json(known_source))
        return [files[start : start + _AT_ONCE] for start in range(0, len(files), _AT_ONCE)]

    def journalled(self) -> None:
        """Notes that the last result of `to_publish` was journalled."""
        for source, state in self._now.items():
            self._said.pop(source, None)
            self._said[source] = state
        while len(self._said) > _MOST:
            del self._said[next(iter(self._said))]
        self._now = {}

    def _is_news(
        self, before: tuple[int, int, int] | None, state: tuple[int, int, int], *, is_over: bool
    ) -> bool:
        if before is None or before[:2] != state[:2]:
            return True
        has_grown = state[2] >= 2 * max(before[2], 1) or state[2] == FULL
        return before[2] < state[2] and (is_over or has_grown)


def _sources_in(entries: Iterable[Json]) -> dict[str, bool]:
    """The sources in these entries, and whether they are over."""
    is_over_by_source: dict[str, bool] = {}
    for ledger_entry in entries:
        for passage in ledger_entry.get("passages", ()):
            for run in passage["runs"]:
                is_over_by_source.setdefault(run["source"], False)
        for ended_source in (*ledger_entry.get("finished", ()), *ledger_entry.get("unwatched", ())):
            if ended_source["source"]:
                is_over_by_source[ended_source["source"]] = True
    return is_over_by_source


class _Prepared(msgspec.Struct, frozen=True):
    """Entries to journal, and what holds once the journal has them. `has_more`: other statements
    can be published at once."""

    batches: Sequence[Outgoing]
    chain: Chain
    paths: dict[str, float]
    moved: Sequence[SourceId]
    heartbeats: list[Json]
    health: Health | None
    has_more: bool


class Ledger:
    """The agent's part of the ledger. Belongs to the shipping thread, except for `heartbeat`."""

    def __init__(
        self,
        config: AgentConfig,
        journal: Journal,
        is_placed: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_placed` returns whether the topic id for a name is known."""
        self._config = config
        self._journal = journal
        self._is_placed = is_placed
        self._clock = clock
        self._window_millis = config.window * 1000
        self._most_bytes = MOST_BYTES
        self._heartbeats = Heartbeats(self._window_millis, SOFTWARE_VERSION)
        self._probe = HealthProbe(
            SOFTWARE_VERSION,
            directories=(config.data_dir,),
            certificates=config.certificate_files,
        )
        self._health_reports = HealthReports(clock=clock)
        self.problems: Sequence[Problem] = ()  # may be set at any time
        self._told: tuple[Mapping[str, int], int] | None = None
        self._paths_said: dict[str, float] = {}
        self._files = PublishedFiles(journal.known_source)
        self._encoder: Encoder | None = None
        self._encoder_id = -1
        self._chain = Chain(journal.key)
        self._has_proven = False
        self._prepared: _Prepared | None = None  # not journalled yet
        # A new agent publishes its first entry at once, so that the audit knows of it.
        self.due = clock() + (config.ledger_interval if journal.ledger_seq else 0.0)
        """When `entries` may return something again."""

    def heartbeat(self, until: Mapping[str, int], lag_bytes: int) -> None:
        """Sets the times up to which topics are acknowledged, in milliseconds. Any thread."""
        self._told = until, lag_bytes

    def has_more(self) -> bool:
        """Whether there is anything to publish now."""
        if self._prepared is not None:
            return True
        self._take_heartbeat()
        return self._heartbeats.has_news or bool(self._statements() or self._journal.moved)

    def too_large(self, size: int) -> None:
        """Halves the size of entries, after `_audit` has refused one of `size` bytes."""
        self._most_bytes = max(1, min(self._most_bytes, size) // 2)

    def entries(
        self,
        target: TopicPartition,
        schema: TopicSchema,
        now_millis: int,
        *,
        most_batch_bytes: int,
        hurry: bool = False,
    ) -> Sequence[Outgoing]:
        """Journals and returns the batches to send now; none before `due`, unless `hurry` is set.

        Call it again only after they are acknowledged. Raises JournalFull; the next call journals
        the same batches.
        """
        now = self._clock()
        if self._prepared is None and (hurry or now >= self.due):
            self._prepared = self._prepare(target, schema, now, now_millis, most_batch_bytes)
        return () if self._prepared is None else self._journalled(self._prepared, now)

    def _prepare(
        self,
        target: TopicPartition,
        schema: TopicSchema,
        now: float,
        now_millis: int,
        most_batch_bytes: int,
    ) -> _Prepared | None:
        """The entries to publish now; None if there are none."""
        self.due = now + self._config.ledger_interval
        self._take_heartbeat()
        if self._encoder is None or schema.id != self._encoder_id:
            self._encoder, self._encoder_id = Encoder(schema.schema, schema.id), schema.id
        paths: dict[str, float] = {}
        statements = self._statements()
        most_bytes = min(self._most_bytes, most_batch_bytes)
        pending_drafts = self._drafts(statements, paths, now, most_bytes)
        covered_numbers = {number for draft in pending_drafts for number in draft.covers}
        has_only_excepted = all(
            statement.number in covered_numbers
            for statement in statements
            if isinstance(statement, NotSeen)
        )
        is_due = self._heartbeats.is_due(now) and has_only_excepted
        heartbeats = self._heartbeats.statements(now) if is_due else []
        moved_sources = self._journal.moved
        files = self._files.to_publish((draft.lists for draft in pending_drafts), moved_sources)
        pending_drafts = self._with_files(pending_drafts, files)
        if heartbeats:
            pending_drafts.append(Draft({"heartbeats": heartbeats}, (), self._window_millis))
        health = self._probe.health(problems=self.problems)
        # The first entry of a new agent has a heartbeat, by which the audit knows the agent.
        is_known = bool(heartbeats or self._journal.ledger_seq)
        has_health = is_known and self._health_reports.is_due(health)
        if has_health:
            pending_drafts = self._with_health(pending_drafts, {"health": [health.json]})
        if not pending_drafts:
            if not self._journal.ledger_seq:
                self.due = now + min(_UNHEARD_SECONDS, self._config.ledger_interval)
            self._journal.moves_published(moved_sources)
            return None
        chain = copy(self._chain)
        chain.head = self._journal.ledger_head
        batches = [
            self._outgoing(draft, index, target, now_millis, chain)
            for index, draft in enumerate(pending_drafts)
        ]
        return _Prepared(
            batches=batches,
            chain=chain,
            paths=paths,
            moved=moved_sources,
            heartbeats=heartbeats,
            health=health if has_health else None,
            has_more=sum(len(batch.covers) for batch in batches) < len(statements),
        )

    def _journalled(self, prepared: _Prepared, now: float) -> Sequence[Outgoing]:
        """Journals the entries. Returns them to be sent."""
        self._journal.parcel(Parcel(prepared.batches, (), {}))
        self._prepared = None
        self._chain, self._has_proven = prepared.chain, True
        recent_paths = {
            path: said_at
            for path, said_at in self._paths_said.items()
            if now - said_at < PATH_SECONDS
        }
        self._paths_said = recent_paths | prepared.paths
        self._files.journalled()
        self._journal.moves_published(prepared.moved)
        if prepared.heartbeats:
            self._heartbeats.journalled(prepared.heartbeats, now)
        if prepared.health is not None:
            self._health_reports.reported(prepared.health)
        if prepared.has_more:
            self.due = now
        return prepared.batches

    def _take_heartbeat(self) -> None:
        heartbeat, self._told = self._told, None
        if heartbeat is not None:
            self._heartbeats.tell(*heartbeat)

    def _statements(self) -> list[Statement]:
        """The statements to publish, unwatched times first. A run without a batch waits until the
        id of its topic is known."""
        statements = [
            statement
            for statement in self._journal.unpublished
            if not isinstance(statement, Eventless) or self._is_placed(statement.topic)
        ]
        statements.sort(key=lambda each: not isinstance(each, NotSeen))
        return statements

    def _drafts(
        self, statements: Sequence[Statement], paths: dict[str, float], now: float, most_bytes: int
    ) -> list[Draft]:
        """The drafts to publish at once; all of them can be encoded."""
        first_drafts: list[Draft] = []
        for draft in drafts(
            statements,
            lambda source: self._path(source, paths, now),
            self._topic_id,
            window_millis=self._window_millis,
            most_bytes=most_bytes,
        ):
            if len(first_drafts) >= MOST_ENTRIES and first_drafts[-1].covers:
                break
            first_drafts.append(draft)
        if all(map(self._can_be_written, first_drafts)):
            return first_drafts
        covered_numbers = {number for draft in first_drafts for number in draft.covers}
        single_drafts = [
            Draft(*_alone(statement, self._topic_id, self._window_millis))
            for statement in statements
            if statement.number in covered_numbers
        ]
        return [
            draft if self._can_be_written(draft) else _left_out(draft) for draft in single_drafts
        ]

    def _with_files(self, pending: list[Draft], files: Sequence[list[Json]]) -> list[Draft]:
        """Adds files: a few to the first draft, many as drafts of their own."""
        is_roomy = self._most_bytes >= MOST_BYTES
        if pending and is_roomy and len(files) == 1 and len(files[0]) <= _FEW_FILES:
            first_draft = pending[0]
            return [
                replace(first_draft, lists=first_draft.lists | {"files": files[0]}),
                *pending[1:],
            ]
        return [Draft({"files": part}, (), self._window_millis) for part in files] + pending

    def _with_health(self, pending: list[Draft], lists: Json) -> list[Draft]:
        """Adds the statement to the last draft, if there is one with room."""
        if not pending or self._most_bytes < MOST_BYTES:
            return [*pending, Draft(lists, (), self._window_millis)]
        *other_drafts, last_draft = pending
        return [*other_drafts, replace(last_draft, lists=last_draft.lists | lists)]

    def _can_be_written(self, draft: Draft) -> bool:
        assert self._encoder is not None
        try:
            self._encoder.encode(entry(draft, _NO_HEADER, cluster=self._config.cluster))
        except BadMessage as error:
            if len(draft.covers) <= 1:
                log.error("cannot encode a statement for the ledger error=%r", str(error))
            return False
        return True

    def _outgoing(
        self, draft: Draft, at: int, target: TopicPartition, now_millis: int, chain: Chain
    ) -> Outgoing:
        assert self._encoder is not None
        header = {
            "time": now_millis,
            "host": path_text(self._config.host_name),
            "app": APP,
            "source": self._journal.agent_id,
            "seq": self._journal.ledger_seq + at,
            "position": 0,
        }
        value = self._encoder.encode(entry(draft, header, cluster=self._config.cluster))
        codec = Codec[self._config.batches.compression.name]
        is_first = not at and not self._has_proven
        record = Record(0, now_millis, None, value)
        if is_first or "heartbeats" in draft.lists:
            proof = chain.prove(value, self._clock())
            record = record._replace(headers=((HEADER, proof.encoded),))
        else:
            chain.add(value)
        return Outgoing(
            number=self._journal.next_number(),
            kind=BatchKind.LEDGER,
            batch=Batch(target, build_batch([record], codec=codec, leader_epoch=-1)),
            covers=draft.covers,
        )

    def _path(self, source: str, published: dict[str, float], now: float) -> str:
        """The path of a source, once an hour; otherwise empty."""
        published_at = published.get(source, self._paths_said.get(source, -PATH_SECONDS))
        if now - published_at < PATH_SECONDS:
            return ""
        known_source = self._journal.known_source(SourceId(source))
        published[source] = now
        return known_source.path if known_source else ""

    def _topic_id(self, topic: str) -> str:
        chosen = self._journal.chosen(topic)
        return chosen.topic_id if chosen else ""


_NO_HEADER: Final = {"time": 0, "host": "", "app": "", "source": "", "seq": 0, "position": 0}


def _alone(
    statement: Statement, topic_id: Callable[[str], str], window_millis: int
) -> tuple[dict[str, object], tuple[int, ...], int]:
    """A draft of a single statement, of any size, without paths."""
    (draft,) = list(
        drafts(
            [statement],
            lambda _: "",
            topic_id,
            window_millis=window_millis,
            most_bytes=MOST_BYTES,
        )
    )[-1:]
    return draft.lists, draft.covers, draft.window_millis


def _left_out(draft: Draft) -> Draft:
    return Draft({}, draft.covers, draft.window_millis)
