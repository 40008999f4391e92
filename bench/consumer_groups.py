"""`python -m bench.consumer_groups`: the time that a Penstock group takes to settle.

Members are threads of one process, each with a ZooKeeper session, beside one ZooKeeper and no
broker: only the ownership of partitions is measured. Each member is tended every 20 ms, more often
than by an idle consumer. A group is settled when each member owns exactly its share.

    all come     all members begin at once; from the first join
    one comes    from the beginning of its join
    one leaves   from the beginning of its leave
    one is lost  from the end of its session, without a leave
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
    """A member that runs on a thread of its own and reads no messages."""

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
        """Ends the member's session without leaving the group."""
        self._stopping.set()
        self.session.close()
        self._thread.join()


def _seconds_until_settled(
    member_threads: list[_Tended], partitions: int, start_time: float
) -> float:
    while not _is_settled(member_threads, partitions):
        if time.monotonic() > start_time + _WITHIN_S:
            raise TimeoutError("the group did not settle")
        time.sleep(0.005)
    return time.monotonic() - start_time


def _is_settled(member_threads: list[_Tended], partitions: int) -> bool:
    names = [thread.member.name for thread in member_threads]
    if not all(names):
        return False
    members = dict.fromkeys(names, (_TOPIC,))
    return all(
        thread.member.claims.copy() == assigned(name, members, {_TOPIC: partitions})
        for thread, name in zip(member_threads, names, strict=True)
    )


def _measure(zookeeper: str, members: int, partitions: int) -> dict[str, float]:
    address, group = f"{zookeeper}/{uuid4().hex}", "readers"
    times_by_case: dict[str, float] = {}
    with ExitStack() as stack:
        session = Session.connect(address, secret=None, connect_timeout_s=60)
        stack.callback(session.close)
        topic = TopicNode(topic_id=uuid4(), replicas=((1,),) * partitions)
        session.write([Create(paths.topic(_TOPIC), nodes.encode(topic))])
        member_threads: list[_Tended] = []

        def add(number: int) -> None:
            member_threads.append(_Tended(address, group, f"member-{number:03}"))

        def measure(case: str, change: Callable[[], None]) -> None:
            start_time = time.monotonic()
            change()
            member_threads.sort(key=lambda thread: thread.member.name)
            times_by_case[case] = _seconds_until_settled(member_threads, partitions, start_time)

        def all_come() -> None:
            threads = [threading.Thread(target=add, args=(number,)) for number in range(members)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        try:
            measure("all come", all_come)
            measure("one comes", lambda: add(members))
            measure("one leaves", lambda: member_threads.pop(members // 2).stop())
            measure("one is lost", lambda: member_threads.pop(members // 3).lose())
        finally:
            for thread in member_threads:
                thread.stop()
    return times_by_case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        zookeeper = EmbeddedZooKeeper.start(Path(directory) / "zookeeper", port=0)
        try:
            for members, partitions in _SIZES:
                samples = [_measure(zookeeper.address, members, partitions) for _ in range(rounds)]
                for case in samples[0]:
                    times = sorted(sample[case] for sample in samples)
                    print(
                        f"{members} members, {partitions} partitions, {case}: "
                        f"{statistics.median(times):.2f} s ({times[0]:.2f} to {times[-1]:.2f})",
                        flush=True,
                    )
        finally:
            zookeeper.stop()


if __name__ == "__main__":
    main()
