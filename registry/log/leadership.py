"""Whether this registry is the writer, and otherwise which registry is.

`Elected` uses ZooKeeper; `Alone` is for a single registry. The writer's thread takes an epoch, and
gives it up when it is of no more use, for example after a failed write. The next epoch is newer, so
that pending writes of the last one are refused. It may go to another registry, which perhaps
reaches the brokers.

A `Tenure` is an epoch as seen in the topic. After the writer's first batch, all batches must be its
own: one of a newer epoch of the same producer comes from the successor, any other from a program
outside the election.
"""

import threading
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from client.errors import ClientError
from client.producing.producer import Identity
from cluster.errors import Unavailable
from cluster.layout.nodes import WriterNode
from cluster.registry_writer import WriterCandidate, WriterOffice, after
from cluster.session.session import Session
from cluster.values import WriterEpoch
from registry.log.topic_follower import ReadBatch
from registry.log.topic_view import TopicView
from registry.schemas_topic.contents import RegistryContents
from wire.record_batches.batch import NO_PRODUCER

TakeId = Callable[[], int]


class Leadership(Protocol):
    """The writer's office as this registry knows it. `news` is notified of every change; the
    writer's thread waits for it.

    `on_holder` gets the writer's address, None while unknown, on any thread.
    """

    news: threading.Condition

    @property
    def epoch(self) -> WriterEpoch | None:
        """The epoch while this registry is the writer and has not given it up; otherwise None."""

    def start(self, on_holder: Callable[[str | None], None]) -> None: ...

    def take(self, stopping: Callable[[], bool]) -> WriterEpoch | None:
        """Waits until this registry is the writer, and returns its epoch; None if `stopping`
        becomes true first.

        Raises ClientError if no producer id could be obtained; may be called again.
        """

    def give_up(self) -> None:
        """Resigns as writer until `take` is called again."""

    def drop_id(self, epoch: WriterEpoch) -> None:
        """Uses another producer id for the next epoch, because the broker rejects the id of this
        epoch or the id that this epoch retires."""

    def close(self) -> None: ...


class Alone:
    """The leadership of a single registry, which gets a producer id of its own."""

    def __init__(self, address: str, new_producer_id: TakeId) -> None:
        self.news = threading.Condition()
        self.epoch: WriterEpoch | None = None
        self._address = address
        self._new_producer_id = new_producer_id
        self._last: WriterEpoch | None = None

    def start(self, on_holder: Callable[[str | None], None]) -> None:
        on_holder(self._address)

    def take(self, stopping: Callable[[], bool]) -> WriterEpoch | None:
        if stopping():
            return None
        if self._last is None:
            self._last = WriterEpoch(1, self._new_producer_id(), 0, None, 0)
        else:
            self._last = after(self._last, self._new_producer_id)
        self.epoch = self._last
        return self.epoch

    def give_up(self) -> None:
        self.epoch = None

    def drop_id(self, epoch: WriterEpoch) -> None:
        self._last = None

    def close(self) -> None:
        self.epoch = None


class Elected:
    """The leadership of one of several registries. The candidate's callbacks run on the candidate's
    thread."""

    def __init__(
        self,
        session: Session,
        *,
        topic: str,
        address: str,
        cluster_id: str,
        new_producer_id: TakeId,
        on_double: Callable[[], None],
    ) -> None:
        """`on_double` is called if another registry claims our address."""
        self.news = threading.Condition()
        self.epoch: WriterEpoch | None = None
        self._address = address
        self._session = session
        self._office = WriterOffice(topic, address, cluster_id, _or_unavailable(new_producer_id))
        self._given_up: WriterEpoch | None = None
        self._on_double = on_double
        self._on_holder: Callable[[str | None], None] = lambda _: None
        self._candidate = WriterCandidate(
            session,
            self._office,
            on_elected=self._become,
            on_deposed=lambda: self._become(None),
            on_holder=self._note_holder,
        )

    def check(self) -> None:
        """Checks that this registry can stand for election. Raises ClusterError."""
        self._office.current(self._session)

    def start(self, on_holder: Callable[[str | None], None]) -> None:
        self._on_holder = on_holder
        self._candidate.start()

    def take(self, stopping: Callable[[], bool]) -> WriterEpoch | None:
        with self.news:
            # Standing again gives a new epoch only once the last one is resigned.
            self.news.wait_for(lambda: self._given_up is None or stopping())
            self._candidate.stand()
            self.news.wait_for(lambda: self.epoch is not None or stopping())
            return None if stopping() else self.epoch

    def give_up(self) -> None:
        with self.news:
            self._given_up, self.epoch = self.epoch, None
        self._candidate.stand_back()

    def drop_id(self, epoch: WriterEpoch) -> None:
        self._office.dropped_id = epoch.producer_id

    def close(self) -> None:
        self._candidate.close()
        with self.news:
            self.epoch = None

    def _become(self, epoch: WriterEpoch | None) -> None:
        with self.news:
            if epoch is None:
                self._given_up = None
            self.epoch = epoch
            self.news.notify_all()

    def _note_holder(self, holder: WriterNode | None) -> None:
        if holder is None:
            self._on_holder(None)
            return
        if holder.address == self._address and not self._office.is_own(holder):
            self._on_double()
        self._on_holder(holder.address)


class Over(Enum):
    """The reason why a tenure ended."""

    SUCCEEDED = "a newer writer has written"
    INTRUDED = "another program has written"


class Tenure:
    """One epoch of this registry as writer, as seen in the topic. `observe` runs on the event loop;
    the other attributes may be read on any thread."""

    def __init__(self, epoch: WriterEpoch, reading: TopicView, news: threading.Condition) -> None:
        self.began: RegistryContents | None = None  # a copy of the contents after our first batch
        self.over: Over | None = None
        self.ended_by: ReadBatch | None = None
        self._identity: Final = Identity(epoch.producer_id, epoch.producer_epoch)
        self._reading = reading
        self._news = news

    def observe(self, batch: ReadBatch) -> None:
        author = batch.author
        if self.over is not None:
            return
        if author == self._identity:
            if self.began is not None:
                return
            self.began = self._reading.contents.copy()
        elif self.began is not None:
            is_newer = author.producer_id == self._identity.producer_id != NO_PRODUCER
            is_newer = is_newer and author.epoch > self._identity.epoch
            self.over = Over.SUCCEEDED if is_newer else Over.INTRUDED
            self.ended_by = batch
        else:
            return
        with self._news:
            self._news.notify_all()


def _or_unavailable(take: TakeId) -> TakeId:
    """Turn a client's error into one of the cluster's, after which the election tries again."""

    def taken() -> int:
        try:
            return take()
        except ClientError as error:
            raise Unavailable(f"no producer id: {error}") from None

    return taken
