"""Distribution of partitions among the workers of one mirror: they share the partitions of all
copies as members of a consumer group of Penstock's protocol, in the target's ZooKeeper.

For a moment two workers may copy the same partition, while one has not noticed its loss. That is
harmless, since the target compares, so workers do not wait for each other.

Runs on its own thread, since it waits for ZooKeeper.
"""

import logging
import threading
from collections.abc import Callable, Collection
from typing import Final

from client.group.member import Member
from client.reading.fetch_session import Key
from cluster.errors import ClusterError, Fenced
from cluster.session.session import Session
from cluster.values import TopicPartition
from mirror.config import MirrorConfig

log = logging.getLogger(__name__)

_GLANCE_S: Final = 0.1
_AGAIN_S: Final = 2.0
_SESSION_S: Final = 10.0


class Sharing:
    """One worker's share. `topics` returns the copies, `share` gets the worker's partitions."""

    def __init__(
        self,
        config: MirrorConfig,
        topics: Callable[[], Collection[str]],
        share: Callable[[frozenset[Key]], None],
    ) -> None:
        self.trouble = "not a member yet"  # any thread
        self._config = config
        self._topics = topics
        self._share = share
        self._stopping = threading.Event()
        self._shared: frozenset[Key] = frozenset()
        self._thread = threading.Thread(target=self._run, name="sharing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops; other workers get this worker's partitions at once."""
        self._stopping.set()
        self._thread.join()

    # Callbacks of the member, on this thread

    def gained(self, partitions: Collection[TopicPartition]) -> None:
        self._tell(self._shared | _keys(partitions))

    def releasing(self, partitions: Collection[TopicPartition]) -> None:
        self._tell(self._shared - _keys(partitions))

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self._tell(self._shared - _keys(partitions))

    def _tell(self, shared: frozenset[Key]) -> None:
        self._shared = shared
        self._share(shared)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._share_once()
            except Exception as error:  # a bug: the next session tries again
                log.exception("sharing partitions failed, trying again")
                self.trouble = repr(error)
                self._stopping.wait(_AGAIN_S)

    def _share_once(self) -> None:
        """Share for as long as one session lasts."""
        side = self._config.target
        try:
            session = Session.connect(
                side.zookeeper,
                secret=side.zookeeper_secret or None,
                security=side.zookeeper_security,
                timeout_s=_SESSION_S,
                makes_map=False,
            )
        except ClusterError as error:
            self._report(str(error))
            self._stopping.wait(_AGAIN_S)
            return
        try:
            self._be_members(session)
        except (ClusterError, Fenced) as error:
            self._report(str(error))
        finally:
            session.close()
            self._tell(frozenset())

    def _be_members(self, session: Session) -> None:
        while not self._stopping.is_set():
            topics = tuple(sorted(self._topics()))
            if not topics:
                self._stopping.wait(_GLANCE_S)
                continue
            member = Member(session, self._config.name, topics, self)
            try:
                self._be_member(member, topics)
            finally:
                member.leave()

    def _be_member(self, member: Member, topics: tuple[str, ...]) -> None:
        """Be a member while the set of copies stays the same."""
        while not self._stopping.is_set() and tuple(sorted(self._topics())) == topics:
            member.tend()
            if member.name:
                self._report("")
            self._stopping.wait(_GLANCE_S)

    def _report(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("cannot share partitions error=%r", trouble)
        self.trouble = trouble


def _keys(partitions: Collection[TopicPartition]) -> frozenset[Key]:
    return frozenset((partition.topic, partition.partition) for partition in partitions)
