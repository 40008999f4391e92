"""A stream's view of the cluster: where it begins, how far it may go, and what a batch reads.

Used by one thread, from one process, for as long as the query lives. It keeps its connections, and
the offset that a run with `Trigger.AvailableNow` ends at; where it stands, Spark keeps.
"""

from collections.abc import Collection
from typing import Final

from client.brokers import Brokers
from loader.planning.facts import TopicFacts
from loader.source.asking import facts_and_epochs, facts_of, times_of, topics_of
from loader.source.batch_plan import tasks_of
from loader.source.description import CLIENT_ID
from loader.source.errors import OptionRefused
from loader.source.options import SourceOptions
from loader.source.positions import Latest
from loader.source.ranges import Bound, places
from loader.source.stream_offsets import StreamOffset, advanced, beginning, ranges_of, whole
from loader.source.tasks import Task, tasks


class Stream:
    """Nobody is asked before something is."""

    def __init__(self, options: SourceOptions) -> None:
        self.options: Final = options
        self.latest: StreamOffset | None = None  # all there was, when it was last asked for
        self._target: StreamOffset | None = None
        self._brokers: Brokers | None = None

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def initial(self) -> StreamOffset:
        """Where a new query begins."""
        brokers = self._connected()
        facts = facts_of(brokers, topics_of(brokers, self.options))
        where = self.options.starting or Latest()
        first = places(
            facts,
            where,
            times_of(brokers, facts, where),
            bound=Bound.STARTING,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        return beginning(facts, first)

    def end_here(self) -> None:
        """What comes from now on is left for another run."""
        self._target = whole(self._facts(StreamOffset(topics={})))

    def next(self, start: StreamOffset, most: int | None) -> StreamOffset:
        """The end of the next batch, which has at most so many offsets."""
        self._check_topics(start.topics)
        facts = self._facts(start)
        self.latest = whole(facts)
        return advanced(
            start,
            facts,
            most=most,
            target=self._target,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )

    def tasks_between(self, start: StreamOffset, end: StreamOffset) -> list[Task]:
        """The tasks of a batch."""
        found = ranges_of(start, end)
        if self.options.bytes_per_task is None or not found:
            return tasks(found, self.options)
        return tasks_of(self._connected(), found, self.options)

    def _facts(self, start: StreamOffset) -> dict[str, TopicFacts]:
        brokers = self._connected()
        known = {topic: each.partitions for topic, each in start.states.items()}
        topics = topics_of(brokers, self.options)
        return facts_and_epochs(brokers, {topic: known.get(topic, ()) for topic in topics})

    def _check_topics(self, known: Collection[str]) -> None:
        if self.options.pattern is not None or not self.options.fail_on_data_loss:
            return
        for topic in known:
            if topic not in self.options.topics:
                raise OptionRefused(
                    f"the checkpoint is of a query that read topic {topic}, and option `topic` "
                    "does not name it: name it, or take a new checkpoint"
                )

    def _connected(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self.options.bootstrap, client_id=CLIENT_ID)
        return self._brokers
