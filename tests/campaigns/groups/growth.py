"""The topic of a run gets more partitions. Whoever writes to it hears of them when all brokers know
them; members of groups find out by themselves."""

from concurrent.futures import Future, wait
from typing import Final

from confluent_kafka.admin import AdminClient, NewPartitions

from harness.broker_cluster import BrokerCluster
from harness.waiting import wait_until
from tests.campaigns.cluster.writers import RETURN
from tests.campaigns.groups.writer import Writer
from tests.system.crash import Worker

_EVERY: Final = 0.5
_ANSWERED_WITHIN: Final = 10.0


class Growth(Worker):
    def __init__(self, cluster: BrokerCluster, topic: str, writer: Writer, partitions: int) -> None:
        super().__init__("growth")
        self._cluster, self._topic, self._writer = cluster, topic, writer
        self._wanted = partitions
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **RETURN})
        self._asked: list[Future[None]] = []

    def grow(self) -> None:
        """By one. It is not waited for: whether anybody can do it now is part of the run."""
        self._wanted += 1
        more = [NewPartitions(self._topic, self._wanted)]
        answers = self._admin.create_partitions(more, request_timeout=_ANSWERED_WITHIN)
        self._asked += answers.values()

    def work(self) -> None:
        while not self._stop_asked.wait(_EVERY):
            self._writer.reach(self._known)

    def settle(self, *, within: float) -> int:
        """How many there are when all is well and nothing is asked for any more; the writer knows.
        Raises TimeoutError if brokers do not agree."""
        wait(self._asked)
        what = f"all brokers know as many partitions of {self._topic}"
        wait_until(lambda: self._known > 0, within=within, what=what, every=_EVERY)
        self._writer.reach(self._known)
        return len(self._writer.ends)

    @property
    def _known(self) -> int:
        """By all brokers; 0 if one of them is away or knows of another number."""
        said = {len(self._cluster.said_by(each, self._topic)) for each in self._cluster.ids}
        return said.pop() if len(said) == 1 else 0
