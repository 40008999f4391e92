"""`python -m bench.consumer_groups`: how long a group of the paper's kind takes to settle.

Members are threads of one process, each with a session of its own; a ZooKeeper runs beside them,
and there are no brokers: what is measured is who owns what. Each is tended every 20 ms, more often
than a consumer that has nothing to read. Settled is when each member has its share, and nobody
anything else.

    all come     from the first that joins, when all begin at the same time
    one comes    from when it begins to join
    one leaves   from when it begins to leave
    one is lost  from the end of its session, without a word of its own before
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import uuid4

from client.group.assignment import assigned
from client.group.member import Member
from cluster.layout import nodes, paths
from cluster.layout.nodes import TopicNode
from cluster.session.operations import Create
from cluster.session.session import Session
from cluster.values import TopicPartition
from cluster.zookeeper_server.server import EmbeddedZooKeeper

_TOPIC: Final = "many"
_TENDED_EVERY_S: Final = 0.02
_WITHIN_S: Final = 600.0
_SIZES: Final = ((10, 100), (20, 1_000))


class _Tended:
    """A member in a thread, which reads nothing."""

    def __init__(self, address: str, group: str, name: str) -> None:
        self.session = Session.connect(address, secret=None, connect_timeout_s=60)
        self.member = Member(self.session, group, [_TOPIC], self, name=name)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def gained(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def releasing(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def _run(self) -> None:
        while not self._stopping.wait(_TENDED_EVERY_S):
            self.member.tend()
        self.member.leave()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.session.close()

    def lose(self) -> None:
        """Its session ends, and it does not come back."""
        self._stopping.set()
        self.session.close()
        self._thread.join()


def _seconds_until_settled(tended: list[_Tended], partitions: int, since: float) -> float:
    while not _is_settled(tended, partitions):
        if time.monotonic() > since + _WITHIN_S:
            raise TimeoutError("the group does not settle")
        time.sleep(0.005)
    return time.monotonic() - since


def _is_settled(tended: list[_Tended], partitions: int) -> bool:
    names = [each.member.name for each in tended]
    if not all(names):
        return False
    members = dict.fromkeys(names, (_TOPIC,))
    return all(
        each.member.claims.copy() == assigned(name, members, {_TOPIC: partitions})
        for each, name in zip(tended, names, strict=True)
    )


def _measure(zookeeper: str, members: int, partitions: int) -> dict[str, float]:
    address, group = f"{zookeeper}/{uuid4().hex}", "readers"
    took: dict[str, float] = {}
    with ExitStack() as stack:
        session = Session.connect(address, secret=None, connect_timeout_s=60)
        stack.callback(session.close)
        topic = TopicNode(topic_id=uuid4(), replicas=((1,),) * partitions)
        session.write([Create(paths.topic(_TOPIC), nodes.encode(topic))])
        tended: list[_Tended] = []

        def one(number: int) -> None:
            tended.append(_Tended(address, group, f"member-{number:03}"))

        def timed(what: str, change: Callable[[], None]) -> None:
            since = time.monotonic()
            change()
            tended.sort(key=lambda each: each.member.name)
            took[what] = _seconds_until_settled(tended, partitions, since)

        def all_come() -> None:
            threads = [threading.Thread(target=one, args=(each,)) for each in range(members)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        try:
            timed("all come", all_come)
            timed("one comes", lambda: one(members))
            timed("one leaves", lambda: tended.pop(members // 2).stop())
            timed("one is lost", lambda: tended.pop(members // 3).lose())
        finally:
            for each in tended:
                each.stop()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        zookeeper = EmbeddedZooKeeper.start(Path(directory) / "zookeeper", port=0)
        try:
            for members, partitions in _SIZES:
                taken = [_measure(zookeeper.address, members, partitions) for _ in range(rounds)]
                for what in taken[0]:
                    times = sorted(each[what] for each in taken)
                    print(
                        f"{members} members, {partitions} partitions, {what}: "
                        f"{statistics.median(times):.2f} s ({times[0]:.2f} to {times[-1]:.2f})",
                        flush=True,
                    )
        finally:
            zookeeper.stop()


if __name__ == "__main__":
    main()
