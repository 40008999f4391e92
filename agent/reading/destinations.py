"""Destinations of events: a packer for each topic and schema, and the handover to the shipper.

A destination is open while its topic's partitions are known and the topic is not stalled. Closing
it makes a parcel of what was added, and hands it over to the journal, then to the shipper. A parcel
that the journal could not take is handed over again before anything else is read.

A destination that is not full is closed when its oldest line has waited for `linger`, or sooner, if
`agent.reading.departures` allows it and no batch of its topic is in flight. If a batch was in
flight at such a time twice in a row, it waits for `linger`, so that busy brokers get fewer batches.
It also waits for `linger` if every batch is flushed, and while the ledger's backlog is close to the
size at which entries are given up.

Belongs to the pipeline's thread; other threads may read the counts.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from agent.accounting.alterations import Alteration, Altered, AlteredText
from agent.accounting.cuts import Cut
from agent.accounting.parcels import BatchKind, Eventless, Parcel
from agent.accounting.runs import Excepted, Fate, Progress, Run, SourceId
from agent.configuration.config import AgentConfig
from agent.encoding.batches.packer import Packer
from agent.encoding.batches.plan import SourceHeader, TopicPlan
from agent.encoding.bodies.tail_encoder import TailEncoder, path_is_framed
from agent.encoding.topic_schemas.current_schemas import TopicSchemas
from agent.encoding.topic_schemas.values import TopicSchema
from agent.files.happenings import Lost
from agent.journal.journal import Journal
from agent.reading.departures import Departures
from agent.reading.feeds import Feed
from agent.recognition.followed import Followed
from agent.shipping.shipper import Shipper

_NO_SCHEMA: Final = 0


class Destination:
    """One topic with one schema."""

    def __init__(
        self,
        topic: str,
        schema: TopicSchema,
        *,
        plain: bool,
        config: AgentConfig,
        shipper: Shipper,
        schemas: TopicSchemas,
        clock: Callable[[], float],
    ) -> None:
        self.topic = topic
        self.closed = 0  # number of closed parcels
        self._is_held_up = False  # by batches in flight
        self._was_held_up = False  # for the previous parcel
        self._config = config
        self._shipper = shipper
        self._schemas = schemas
        self._plan = TopicPlan(
            topic=topic,
            schema_id=schema.id,
            dead_schema_id=_NO_SCHEMA,
            host=config.host_name,
            plain=plain,
            with_path=path_is_framed(schema.schema),
            header_rest=TailEncoder(schema.schema).header_rest if plain else b"",
            window_millis=config.window * 1000,
            batches=config.batches,
        )
        self._packer = Packer(self._plan, clock=clock)
        self._knows_dead = False

    @property
    def is_open(self) -> bool:
        """Whether cuts can be added now."""
        if self.holds_something:
            return self.topic not in self._shipper.stalled()
        if self._knows_dead and not self._take_plan(for_dead=True):
            self._knows_dead = False  # events go on without the dead-letter topic
        return self._knows_dead or self._take_plan(for_dead=False)

    @property
    def holds_something(self) -> bool:
        return self._packer.oldest is not None

    @property
    def is_full(self) -> bool:
        return self._packer.full

    def is_due(self, now: float) -> bool:
        oldest = self._packer.oldest
        return oldest is not None and now - oldest >= self._config.batches.linger

    def leaves_early(self) -> bool:
        """Whether the destination uses an early departure that `agent.reading.departures`
        allows."""
        if not self.holds_something:
            return False
        in_flight = self._shipper.in_flight(self.topic)[0] > 0
        self._is_held_up |= in_flight
        return not in_flight and not (self._is_held_up and self._was_held_up)

    def lacks_dead_letters(self, source: SourceHeader, cut: Cut, progress: Progress) -> bool:
        """Whether the cut makes dead letters, and their topic's partition is not known yet."""
        end = progress.position + cut.consumed
        return not self._knows_dead and self._packer.needs_dead_letters(source, cut, progress, end)

    def find_dead_letters(self) -> bool:
        """Looks up the dead-letter topic before the first dead letter. The destination must be
        empty."""
        self._knows_dead = self._take_plan(for_dead=True)
        return self._knows_dead

    def add(self, source: SourceHeader, cut: Cut, progress: Progress) -> Progress:
        return self._packer.add(source, cut, progress, progress.position + cut.consumed)

    def close(self, now_millis: int, journal: Journal) -> Parcel:
        self.closed += 1
        self._was_held_up, self._is_held_up = self._is_held_up, False
        return self._packer.close(now_millis, journal.next_number)

    def _take_plan(self, *, for_dead: bool) -> bool:
        """Updates the plan from the cluster, while empty. Returns whether the topic is usable."""
        placement = self._shipper.target(self.topic)
        if placement is None or self.topic in self._shipper.stalled():
            return False
        plan = replace(
            self._plan,
            partition=placement.partition,
            partitions=placement.partitions,
            most_batch_bytes=self._shipper.most_batch_bytes(self.topic),
        )
        if for_dead:
            dead_partition = self._shipper.target(plan.dead_topic)
            schema = self._schemas.dead_letters(self.topic)
            if (
                dead_partition is None
                or schema is None
                or plan.dead_topic in self._shipper.stalled()
            ):
                return False
            plan = replace(
                plan,
                dead_schema_id=schema.id,
                dead_partition=dead_partition.partition,
                most_dead_bytes=self._shipper.most_batch_bytes(plan.dead_topic),
            )
        if plan != self._packer.plan:
            self._packer.plan = plan
        return True


class Destinations:
    """All destinations of an agent."""

    def __init__(
        self,
        config: AgentConfig,
        journal: Journal,
        shipper: Shipper,
        schemas: TopicSchemas,
        feeds: Mapping[str, Feed],
        *,
        departures: Departures,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._journal = journal
        self._shipper = shipper
        self._schemas = schemas
        self._feeds = feeds
        self._departures = departures
        self._clock = clock
        self._open: dict[tuple[str, int], Destination] = {}
        self._headers: dict[SourceId, SourceHeader] = {}
        self._inputs: dict[SourceId, str] = {}
        self._followed: dict[SourceId, Followed] = {}
        self._not_taken: Parcel | None = None
        self.last_number = journal.next_number() - 1  # batches open at the start are older

    def of(self, feed: Feed) -> Destination | None:
        """The destination of a feed; None while it has no schema."""
        schema, reader = feed.schema, feed.reader
        if schema is None or reader is None:
            return None
        key = feed.input.topic, schema.id
        destination = self._open.get(key)
        if destination is None:
            destination = self._open[key] = Destination(
                feed.input.topic,
                schema,
                plain=reader.plain,
                config=self._config,
                shipper=self._shipper,
                schemas=self._schemas,
                clock=self._clock,
            )
        return destination

    def holding(self, topic: str) -> list[Destination]:
        """The topic's destinations with events that the journal does not have yet."""
        return [
            destination
            for destination in self._open.values()
            if destination.topic == topic and destination.holds_something
        ]

    def add(self, destination: Destination, followed: Followed, feed: Feed, cut: Cut) -> bool:
        """Adds a cut and advances the source. Returns False if the caller must try again later."""
        header = self._header(followed, feed)
        if destination.lacks_dead_letters(header, cut, followed.progress):
            self.close(destination)
            if not destination.find_dead_letters():
                return False
        followed.progress = destination.add(header, cut, followed.progress)
        return True

    def _header(self, followed: Followed, feed: Feed) -> SourceHeader:
        header = self._headers.get(followed.source)
        if header is None:
            header = self._headers[followed.source] = SourceHeader(
                followed.source,
                followed.path,
                feed.input.app or feed.input.topic,
                feed.input.partition_by,
                feed.input.label,
            )
            self._inputs[followed.source] = feed.input.label
            self._followed[followed.source] = followed
        return header

    @property
    def hold_something(self) -> bool:
        """Whether any event is not journalled yet."""
        has_held = any(destination.holds_something for destination in self._open.values())
        return has_held or self._not_taken is not None

    def close(self, destination: Destination) -> None:
        if destination.holds_something:
            parcel = destination.close(_now_millis(), self._journal)
            progress = {
                source: self._marked(source, source_progress)
                for source, source_progress in parcel.progress.items()
            }
            self._hand_over(replace(parcel, progress=progress))

    def _marked(self, source: SourceId, progress: Progress) -> Progress:
        """The progress with the mark of the file's bytes before its position."""
        followed = self._followed.get(source)
        if followed is None or followed.progress.position != progress.position:
            return progress
        return replace(progress, mark=followed.mark)

    def close_due(self, now: float) -> None:
        leaves_early = self._may_leave_early(now)
        leaving_destinations = [
            destination
            for destination in self._open.values()
            if destination.is_due(now) or (leaves_early and destination.leaves_early())
        ]
        if leaving_destinations:
            self._departures.left(now)
        for destination in leaving_destinations:
            self.close(destination)

    def _may_leave_early(self, now: float) -> bool:
        is_allowed = now >= self._departures.due and not self._config.journal_sync
        return is_allowed and self._journal.ledger_keeps_up

    def close_all(self) -> None:
        self.hand_over_again()
        for destination in self._open.values():
            self.close(destination)

    def start_over(self) -> None:
        """Forgets the sources and empty destinations, after inputs or schemas have changed."""
        self._open = {
            key: destination
            for key, destination in self._open.items()
            if destination.holds_something
        }
        for values_by_source in (self._headers, self._inputs, self._followed):
            values_by_source.clear()

    def state_loss(self, lost: Lost) -> None:
        """States the loss of bytes of a source that can no longer be read, as a run of its own."""
        followed = lost.followed
        progress = followed.progress
        if lost.position < progress.position:
            return  # stated before the journal was full
        self._close_topic(followed.topic)
        end = lost.position + max(0, lost.bytes)
        excepted = Excepted(Fate.LOST, -1, lost.bytes, lost.reason)
        run = Run(followed.source, progress.seq, 0, lost.position, end, 0, (excepted,))
        followed.progress = next_progress = replace(progress, position=end, mark=0)
        self._inputs.setdefault(followed.source, followed.input)
        statement = Eventless(self._journal.next_number(), followed.topic, run)
        self._hand_over(Parcel((), (statement,), {followed.source: next_progress}))

    def unread(self, topic: str, name: str, path: str) -> None:
        """States that the agent does not read a file of the input."""
        now_millis, altered = _now_millis(), Altered(Alteration.UNREAD, 0, 1)
        statement = AlteredText(
            *(self._journal.next_number(), topic, name, SourceId(""), path, altered),
            *(now_millis, now_millis),
        )
        self._hand_over(Parcel((), (), {}, (statement,)))

    def end(self, followed: Followed) -> None:
        """Closes the file's destinations and forgets its source."""
        self._close_topic(followed.topic)
        self._headers.pop(followed.source, None)
        self._inputs.pop(followed.source, None)
        self._followed.pop(followed.source, None)

    def hand_over_again(self) -> None:
        """Repeats the handover of the parcel that the journal could not take, if any."""
        if self._not_taken is not None:
            self._hand_over(self._not_taken)

    def _close_topic(self, topic: str) -> None:
        for destination in self.holding(topic):
            self.close(destination)

    def _hand_over(self, parcel: Parcel) -> None:
        self._not_taken = parcel
        self._journal.parcel(parcel)
        self._not_taken = None
        self._shipper.submit(parcel)
        numbers = [outgoing.number for outgoing in parcel.batches]
        self.last_number = max(self.last_number, *numbers) if numbers else self.last_number
        self._count(parcel)

    def _count(self, parcel: Parcel) -> None:
        runs: list[Run] = [eventless.run for eventless in parcel.eventless]
        for batch in parcel.batches:
            if batch.kind is BatchKind.EVENTS:
                runs += batch.runs
        for run in runs:
            feed = self._feeds.get(self._inputs.get(run.source, ""))
            if feed is not None:
                feed.counts.add(run)
        for altered in parcel.altered:
            feed = self._feeds.get(altered.input)
            if feed is not None:
                feed.counts.add_altered(altered.altered)


def _now_millis() -> int:
    return time.time_ns() // 1_000_000
