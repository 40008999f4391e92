"""Looks up topics in the cluster, and chooses this agent's partitions.

A topic is looked up when it is first needed, and again every minute, since it may be recreated, or
its limits may change. Failed lookups are repeated after a pause; no thread waits for them. A
missing topic is created only if the brokers create topics automatically.

An agent chooses its partitions of a topic once, and keeps them: partitions added later are for new
agents. Only for a topic that was deleted and recreated it chooses again.

Methods marked so are thread-safe; the others belong to the shipping thread.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from agent.errors import JournalFull
from agent.journal.journal import Journal
from agent.shipping.questions import GoesOn, Questions
from agent.shipping.rebuilding import TimeBounds
from client.admin.topics import ConfigEntry, topic_configs
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.producing.delivery import TopicPartition
from client.reading.offsets import offsets_at
from ledger.names import LEDGER_TOPIC, topic_id_text
from wire.acls import Operation
from wire.messages.list_offsets import LATEST

REFRESH_SECONDS: Final = 60.0
_UNWANTED_SECONDS: Final = 2 * REFRESH_SECONDS
DEFAULT_BATCH_BYTES: Final = 1_000_000
LEAST_BATCH_BYTES: Final = 512
UNKNOWN_BOUNDS: Final = TimeBounds(3_600_000, 0)
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0

log = logging.getLogger(__name__)


class Placement(msgspec.Struct, frozen=True):
    """The partitions for events of a topic: `partition`, or the first `partitions` if spread."""

    topic: str
    topic_id: str  # as Kafka's tools print it; empty if the cluster has no topic ids
    partition: int
    partitions: int

    @property
    def target(self) -> TopicPartition:
        """The partition for events that are not spread."""
        return TopicPartition(self.topic, self.partition)


def chosen(agent_id: str, topic: str, topic_id: str, partitions: int) -> Placement:
    """Chooses the partition for an agent and topic. It changes only with the number of
    partitions."""
    digest = sha256(f"{agent_id}/{topic}".encode()).digest()
    return Placement(topic, topic_id, int.from_bytes(digest[:8], "big") % partitions, partitions)


def is_recreated(known: Placement, topic_id: str, partitions: int) -> bool:
    """Whether the topic was recreated. Without topic ids, this shows only if it has fewer
    partitions now, since topics never lose partitions."""
    if known.topic_id and topic_id:
        return known.topic_id != topic_id  # with fewer partitions, a broker is only behind
    return partitions < known.partitions


class TopicUnusable(ClientError):
    """The error for a topic whose configuration does not allow any batch."""


class Facts(msgspec.Struct, frozen=True):
    topic_id: str
    partitions: int
    batch_bytes: int = DEFAULT_BATCH_BYTES
    bounds: TimeBounds = UNKNOWN_BOUNDS
    ends: tuple[int, ...] = ()  # end offsets of the partitions, if requested
    hidden: str = ""  # why its limits are unknown


class _Entry(msgspec.Struct):
    placement: Placement | None
    facts: Facts | None = None
    trouble: ClientError | None = None
    asking: bool = False
    due: float = 0.0
    pause: float = _FIRST_PAUSE
    wanted_at: float = 0.0  # when its placement was last requested


class Topics:
    """All topics that this agent writes to."""

    def __init__(
        self,
        journal: Journal,
        questions: Questions,
        recreated: Callable[[Placement], None],
    ) -> None:
        """`recreated` is called with the new choice, on the shipping thread."""
        self._journal = journal
        self._questions = questions
        self._recreated = recreated
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def place(self, topic: str) -> Placement | None:
        """The placement of a topic; None while unknown. Any thread.

        Call it only with something to send: a topic without, once deleted, must not be created
        again.
        """
        entry, now = self._entry(topic), time.monotonic()
        if now - entry.wanted_at > _UNWANTED_SECONDS:
            entry.due = min(entry.due, now)
        entry.wanted_at = now
        return entry.placement

    def known(self, topic: str) -> Placement | None:
        """The placement of a topic, if known, without a lookup."""
        return self._entry(topic).placement

    def batch_bytes(self, topic: str) -> int:
        """The topic's limit for a batch. Any thread."""
        facts = self._entry(topic).facts
        return facts.batch_bytes if facts else DEFAULT_BATCH_BYTES

    def bounds(self, topic: str) -> TimeBounds:
        facts = self._entry(topic).facts
        return facts.bounds if facts else UNKNOWN_BOUNDS

    def troubles(self) -> dict[str, ClientError]:
        """The errors of failed lookups, by topic. Any thread."""
        with self._lock:
            return {name: entry.trouble for name, entry in self._entries.items() if entry.trouble}

    def work(self, now: float) -> None:
        """Starts the lookups that are due: one for each new topic, one for all others together."""
        with self._lock:
            for entry in self._entries.values():
                if entry.due <= now and now - entry.wanted_at > _UNWANTED_SECONDS:
                    entry.due, entry.trouble = now + REFRESH_SECONDS, None
            due_entries = {
                name: entry
                for name, entry in self._entries.items()
                if not entry.asking and entry.due <= now
            }
            for entry in due_entries.values():
                entry.asking = True
        known_names = [name for name, entry in due_entries.items() if entry.placement is not None]
        for names in filter(
            None, [known_names, *([name] for name in due_entries if name not in known_names)]
        ):
            self._ask(names, ends=names is not known_names)

    def _ask(self, names: Sequence[str], *, ends: bool) -> None:
        def question(brokers: Brokers, _: GoesOn) -> dict[str, Facts | ClientError]:
            return {name: _facts_or_error(brokers, name, ends=ends) for name in names}

        def answered(answers: dict[str, Facts | ClientError] | ClientError) -> None:
            for name in names:
                self._learn(name, answers if isinstance(answers, ClientError) else answers[name])

        self._questions.ask(question, answered)

    def next_time(self) -> float:
        with self._lock:
            return min(
                (entry.due for entry in self._entries.values() if not entry.asking),
                default=float("inf"),
            )

    def doubt(self, topic: str) -> None:
        """Looks a topic up again soon, since it may have been recreated."""
        entry = self._entry(topic)
        entry.wanted_at, entry.due = time.monotonic(), 0.0

    def _entry(self, topic: str) -> _Entry:
        with self._lock:
            entry = self._entries.get(topic)
            if entry is None:
                entry = self._entries[topic] = _Entry(self._remembered(topic))
            return entry

    def _remembered(self, topic: str) -> Placement | None:
        known_partition = self._journal.chosen(topic)
        if known_partition is None or not known_partition.partitions:
            return None
        return Placement(
            topic, known_partition.topic_id, known_partition.partition, known_partition.partitions
        )

    def _learn(self, name: str, answer: Facts | ClientError) -> None:
        entry, now = self._entry(name), time.monotonic()
        entry.asking = False
        if isinstance(answer, ClientError):
            if entry.trouble is None:
                log.warning("cannot look up a topic topic=%s error=%r", name, str(answer))
            entry.trouble, entry.due = answer, now + entry.pause
            entry.pause = min(_LONGEST_PAUSE, entry.pause * 2)
            return
        if entry.trouble is not None:
            log.info("topic lookup works again topic=%s", name)
        entry.trouble, entry.pause, entry.due = None, _FIRST_PAUSE, now + REFRESH_SECONDS
        try:
            self._place(name, entry, answer)
        except JournalFull:
            entry.due = now + _LONGEST_PAUSE
            return
        if answer.hidden and (entry.facts is None or not entry.facts.hidden):
            log.warning("cannot read a topic's limits topic=%s error=%r", name, answer.hidden)
        entry.facts = answer

    def _place(self, name: str, entry: _Entry, facts: Facts) -> None:
        previous = entry.placement
        if previous is not None and not is_recreated(previous, facts.topic_id, facts.partitions):
            return
        placement = chosen(self._journal.agent_id, name, facts.topic_id, facts.partitions)
        self._journal.partition(name, placement.topic_id, placement.partition, placement.partitions)
        if previous is None:
            for partition, end in enumerate(facts.ends):
                self._journal.begins(TopicPartition(name, partition), end)
        entry.placement = placement
        if previous is not None:
            log.warning(
                "topic was deleted and recreated topic=%s was=%s is=%s partition=%d",
                *(name, previous.topic_id, placement.topic_id, placement.partition),
            )
            self._recreated(placement)


def _facts_or_error(brokers: Brokers, name: str, *, ends: bool) -> Facts | ClientError:
    try:
        return _facts(brokers, name, ends=ends)
    except ClientError as error:
        return error


def _facts(brokers: Brokers, name: str, *, ends: bool) -> Facts:
    topic = brokers.topic(name, Operation.WRITE, create=True)
    partitions = range(len(topic.partitions))
    end_offsets = offsets_at(brokers, name, partitions, LATEST) if ends else {}
    configs, reason = _configs(brokers, name)
    batch_bytes = _number(configs, "max.message.bytes", DEFAULT_BATCH_BYTES)
    if not partitions or batch_bytes < LEAST_BATCH_BYTES:
        raise TopicUnusable(
            f"topic {name} cannot accept batches: it has {len(partitions)} partitions and "
            f"max.message.bytes={batch_bytes}"
        )
    return Facts(
        topic_id=topic_id_text(topic.id),
        partitions=len(topic.partitions),
        batch_bytes=batch_bytes,
        bounds=_bounds(configs),
        ends=tuple(end_offsets[partition] for partition in partitions) if ends else (),
        # Entries of the ledger are small, and their times are not bounded: no right is missing.
        hidden=reason if name != LEDGER_TOPIC else "",
    )


def _configs(brokers: Brokers, name: str) -> tuple[Sequence[ConfigEntry], str]:
    """The topic's configuration; empty, with the reason, if the agent may not read it."""
    try:
        return topic_configs(brokers, name), ""
    except ClientError as error:
        if error.retriable:
            raise
        return (), str(error)


def _bounds(configs: Sequence[ConfigEntry]) -> TimeBounds:
    default_millis = _number(configs, "message.timestamp.difference.max.ms", 0)
    before_millis = _number(configs, "message.timestamp.before.max.ms", default_millis)
    after_millis = _number(configs, "message.timestamp.after.max.ms", default_millis)
    return (
        TimeBounds(before_millis, after_millis) if before_millis or after_millis else UNKNOWN_BOUNDS
    )


def _number(configs: Sequence[ConfigEntry], name: str, default: int) -> int:
    """The number, or the default if it is missing or invalid."""
    values = [config.value for config in configs if config.name == name and config.value]
    return int(values[0]) if values and values[0].isdecimal() else default
