"""The pipeline thread: looks at files, reads, packs, and journals parcels.

A turn looks for changes of files, reads a piece of each file with unread bytes, and closes the
destinations that are full or have waited long enough. A closed parcel is journalled before any
other thread sees it. While too much is in flight, or the disk is full, nothing is read: the files
are the buffer. The next turn comes when lines may leave again, so that they are read just before.

Requests of other threads are queued, and carried out between turns.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from agent.configuration.config import AgentConfig, AgentLimits
from agent.configuration.file_inputs import FileInput
from agent.configuration.inputs import Input
from agent.encoding.topic_schemas.current_schemas import TopicSchemas
from agent.errors import JournalFull
from agent.files.files import Files
from agent.files.happenings import Happening
from agent.journal.journal import Journal
from agent.reading.departures import Departures
from agent.reading.destinations import Destination, Destinations
from agent.reading.feeds import Feed
from agent.reading.happening_recorder import HappeningRecorder
from agent.reading.heartbeats import TopicHeartbeats
from agent.reading.intake import Intake
from agent.reading.resource_limits import (
    CpuAllowance,
    cpu_seconds,
    memory_allowance,
    resident_bytes,
)
from agent.shipping.shipper import Shipper

_TURN_SECONDS: Final = 0.025
_CALM_TURN_SECONDS: Final = 0.02  # if lines could leave at once
_REST_SECONDS: Final = 0.25
_PAUSE_WHEN_FULL: Final = 1.0
_WEIGHED_EVERY: Final = 1.0
_PUT_OFF_SECONDS: Final = 1.0

log = logging.getLogger(__name__)

Order = Callable[[], None]


class Pipeline:
    """The pipeline. Call `run` in its thread; other threads may call the methods after `# Any
    thread`."""

    def __init__(
        self,
        config: AgentConfig,
        inputs: Sequence[Input],
        files: Files,
        *,
        journal: Journal,
        shipper: Shipper,
        schemas: TopicSchemas,
        begun: Callable[[Collection[str]], None],
        caught_up: Callable[[str, int], int] = lambda _, scanned_millis: scanned_millis,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = cpu_seconds,
    ) -> None:
        """`begun` gets the names of inputs when the first look at their files is journalled.
        `caught_up`: see `TopicHeartbeats`. `cpu` returns the CPU seconds of the process."""
        self._config = config
        self._files = files
        self._journal = journal
        self._shipper = shipper
        self._schemas = schemas
        self._begun = begun
        self._begins = True
        self._orders: deque[Order] = deque()
        self._stopping = threading.Event()
        self.clock = clock  # any thread
        self._cpu = cpu
        self._allowance = CpuAllowance(config.limits.cpu, clock(), cpu())
        self._departures = Departures(config.batches.linger, config.limits.cpu, clock(), cpu())
        self.feeds: dict[str, Feed] = {}
        self.destinations = Destinations(
            *(config, journal, shipper, schemas, self.feeds),
            departures=self._departures,
            clock=clock,
        )
        self.recorder = HappeningRecorder(files, journal, self.destinations)
        self._heartbeats = TopicHeartbeats(
            files, self.destinations, shipper, self.recorder.intakes, caught_up
        )
        self.paused_seconds = 0.0
        self.over_memory = False
        self.full = ""  # why the journal cannot be written, if so
        self.turned_at = clock()
        self._now_millis = 0
        self._weighed_at = 0.0
        self._feed(inputs)

    # Any thread

    def reload(self, inputs: Sequence[Input]) -> None:
        self._order(lambda: self._reload(inputs))

    def schemas_changed(self) -> None:
        self._order(self._take_schemas)

    def tell(self, happening: Happening, is_journalled: threading.Event | None = None) -> None:
        """Processes a happening that no look found, and then sets the event."""

        def note() -> None:
            self.recorder.note(self.clock())
            if is_journalled is not None:
                is_journalled.set()

        self._order(lambda: self.recorder.expect((happening,)))
        self._order(note)

    def stop(self) -> None:
        """Ends reading; `run` hands on what was read, and returns."""
        self._stopping.set()
        self._files.wake()

    def _order(self, order: Order) -> None:
        self._orders.append(order)
        self._files.wake()

    # The pipeline's thread

    def run(self) -> None:
        while not self._stopping.is_set():
            self.turned_at = self.clock()
            try:
                is_behind = self._turn(self.turned_at)
            except JournalFull as error:
                self._stand_still(error)
                continue
            if self.full:
                log.info("journal writable again")
                self.full = ""
            if not is_behind:
                self._files.wait(self._until_next())
        self._end()

    def _until_next(self) -> float:
        """The seconds until the next turn; longer if only an event of inotify can bring work."""
        if self._files.at_rest and not self.destinations.hold_something:
            return _REST_SECONDS
        due_seconds = self._departures.due - self.clock()
        return min(due_seconds, _TURN_SECONDS) if due_seconds > 0 else _CALM_TURN_SECONDS

    def _turn(self, now: float) -> bool:
        """A turn. Returns whether there is more to read at once."""
        self.destinations.hand_over_again()
        self._carry_out_orders()
        self._note(self._files.look(now), now)
        if self._begins:
            self._begins = False
            self._begun(self.feeds.keys())
        is_behind = self._read(now)
        self.destinations.close_due(now)
        self._heartbeats.beat(now)
        self._departures.spent(self._cpu())
        self._keep_to_limits(now)
        return is_behind

    def _note(self, happenings: Iterable[Happening], now: float) -> None:
        """Journals the results of a look, and last its position, so that a crash before that
        repeats the look."""
        self.recorder.expect(happenings)
        looks, history_position = [], None
        with self._journal.together():
            self.recorder.note(now)
            looks = self._files.looked(self._heartbeats.until)
            if looks:
                self._journal.looked(looks)
            history_position = self._files.history()
            if history_position is not None:
                self._journal.history(history_position)
        if looks:
            self._files.looked_was_written()
        if history_position is not None:
            self._files.history_was_written(history_position)
        self._files.keep(now)

    def _read(self, now: float) -> bool:
        """Reads a piece of each file with unread bytes. Returns whether any has more.

        The rest waits until the next turn, so that one read takes many lines.
        """
        self._now_millis = time.time_ns() // 1_000_000
        is_behind, ready_files = False, self._files.ready()
        self.recorder.start_lag(ready_files, now)
        for followed in ready_files:
            intake = self.recorder.intake(followed)
            if intake is None or not intake.is_due(now):
                continue
            feed = self.feeds.get(followed.input)
            if feed is None:
                continue
            destination = self.destinations.of(feed)
            if destination is None or not destination.is_open:
                continue
            if not self._shipper.room():
                self._shipper.wait_for_room(_TURN_SECONDS)
                return is_behind
            if not self._shipper.room(destination.topic):
                continue  # others go on
            try:
                has_more = self._read_one(intake, feed, destination, now)
            except JournalFull:
                raise
            except Exception as error:
                log.exception("reading failed, input stopped path=%s", followed.path)
                feed.fail(error)
                continue
            is_behind = is_behind or (has_more and followed.unread > 0)
            if self._stopping.is_set():
                break
        return is_behind

    def _read_one(self, intake: Intake, feed: Feed, destination: Destination, now: float) -> bool:
        """Reads a piece of one file. Returns whether it brought anything, or there is more."""
        assert feed.reader is not None
        most_lines = feed.lines_allowed(now)
        if most_lines == 0:
            return False
        try:
            cut = intake.take(feed.reader, now, self._now_millis, most_lines)
        except OSError:
            return False  # noted by the files, and reported at the next look
        if cut is None:
            return intake.goes_on
        if not self.destinations.add(destination, intake.followed, feed, cut):
            intake.put_off(now + _PUT_OFF_SECONDS)
            return False
        feed.count_cut(cut, intake.followed.current_path, now)
        intake.cut_added(now)
        if destination.is_full:
            self.destinations.close(destination)
        return True

    def _keep_to_limits(self, now: float) -> None:
        limits = self._config.limits
        if limits.memory_bytes and now >= self._weighed_at + _WEIGHED_EVERY:
            self._weighed_at = now
            self._weigh(limits)
        if limits.cpu:
            pause = self._allowance.pause(now, self._cpu())
            if pause:
                self._stopping.wait(pause)
                self.paused_seconds += pause

    def _weigh(self, limits: AgentLimits) -> None:
        """Limits the bytes in flight by the memory in use."""
        allowance = memory_allowance(
            resident_bytes(),
            limits.memory_bytes,
            in_flight_limit=limits.in_flight_bytes,
            batch_bytes=self._config.batches.bytes,
        )
        self._shipper.in_flight_limit = allowance.in_flight
        if allowance.exceeded and not self.over_memory:
            log.warning("memory use exceeds limits.memory_bytes and cannot be reduced")
        self.over_memory = allowance.exceeded

    def _stand_still(self, error: JournalFull) -> None:
        if not self.full:
            log.error("journal not writable, reading is paused error=%s", error)
        self.full = str(error)
        now = self.clock()
        self.recorder.expect(self._files.look(now))  # handles keep what is deleted
        self.recorder.start_lag(self._files.ready(), now)
        self._stopping.wait(_PAUSE_WHEN_FULL)

    def _end(self) -> None:
        """Hands on what was read; without a journal, it is read again at the next start. Folders
        were watched up to now, not only up to the last scan."""
        now = self.clock()
        try:
            if not self._begins:
                self._note(self._files.last_look(now), now)
            self.destinations.close_all()
        except JournalFull as error:
            log.warning("journal not writable, lines will be read again error=%s", error)
        self._files.close()

    # Orders

    def _carry_out_orders(self) -> None:
        """Carries out orders; one that meets a full journal is repeated from its beginning."""
        while self._orders:
            self._orders[0]()
            self._orders.popleft()

    def _feed(self, inputs: Sequence[Input]) -> None:
        self._begins = True
        now = self.clock()
        inputs_by_label = {input_.label: input_ for input_ in inputs}
        for name in [name for name in self.feeds if name not in inputs_by_label]:
            del self.feeds[name]
        for name, input_ in inputs_by_label.items():
            previous_feed = self.feeds.get(name)
            if previous_feed is None or previous_feed.input != input_:
                self.feeds[name] = Feed.of(input_, now)
                if previous_feed is not None:
                    self.feeds[name].counts = previous_feed.counts
        self._heartbeats.topics({input_.topic for input_ in inputs})
        self._take_schemas()

    def _reload(self, inputs: Sequence[Input]) -> None:
        """Replaces the inputs, after what was read for the old ones was handed on."""
        self.destinations.close_all()
        self._feed(inputs)
        self.recorder.expect(self._files.reconfigure(self._file_inputs(inputs)))
        self.recorder.start_over()
        self.destinations.start_over()

    def _file_inputs(self, inputs: Sequence[Input]) -> list[FileInput]:
        return [FileInput.of(input_, self._config.data_dir) for input_ in inputs]

    def _take_schemas(self) -> None:
        """Switches to new schemas, after what was read by the old ones was handed on."""
        self.destinations.close_all()
        has_changed = False
        for feed in self.feeds.values():
            schema = self._schemas.of(feed.input)
            reason = self._schemas.missing(feed.input)
            has_changed |= feed.take_schema(schema, self._config.times, reason)
        if has_changed:
            self.recorder.start_over()
            self.destinations.start_over()
