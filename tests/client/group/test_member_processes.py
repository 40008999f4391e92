"""Members as processes, which are killed and frozen; and a ZooKeeper that is killed below them."""

import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from client.admin import create_topic
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from cluster import nodes, paths
from cluster.errors import Unavailable
from cluster.nodes import OwnerNode
from cluster.session import Session
from harness.broker_process import REPOSITORY, BrokerProcess
from harness.server_process import ServerProcess
from harness.zookeepers import ZooKeepers
from tests.client.group.conftest import zookeeper_of
from tests.client.group.witness import Witness, judge
from tests.client.group.working import Writer, until, until_read

PARTITIONS = 6
SESSION_S = 6.0
SILENCE_S = 2.0


class Members:
    """Processes of one group, and what the witness and ZooKeeper say of them."""

    def __init__(self, directory: Path, broker: BrokerProcess, topic: str, count: int) -> None:
        self.topic = topic
        self.broker = broker
        self.group = f"group-{topic}"
        self.witness = Witness(directory / "witness")
        address = zookeeper_of(broker)
        with Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=120) as brokers:
            create_topic(brokers, topic, partitions=PARTITIONS)
        self.session = Session.connect(address, secret=None, connect_timeout_s=60)
        program = [sys.executable, "-m", "tests.client.group.member_process", broker.bootstrap]
        what = [address, self.group, topic, str(directory / "witness"), str(SESSION_S)]
        self.processes = [
            ServerProcess(
                [*program, *what], output=directory / f"member-{number}", directory=REPOSITORY
            )
            for number in range(count)
        ]
        for process in self.processes:
            process.spawn()

    def owners(self) -> dict[int, int]:
        """Which process each partition is owned by, by its id."""
        found = {}
        for number in range(PARTITIONS):
            path = paths.partition_owner(self.group, self.topic, number)
            node = self.session.read(path)
            if node is not None:
                member = nodes.decode(path, node.data, OwnerNode).member
                found[number] = int(member.rsplit("-", 3)[1])
        return found

    def until_shared(self, *numbers: int) -> None:
        pids = {self.processes[number].pid for number in numbers}
        share = PARTITIONS // len(pids)

        def is_shared() -> bool:
            self._fail_if_one_ended(numbers)
            try:
                owners = list(self.owners().values())
            except Unavailable:  # a ZooKeeper that comes back may let go of who asks once more
                return False
            return {owners.count(pid) for pid in pids} == {share}

        until(is_shared, f"each of {numbers} has {share}")

    def _fail_if_one_ended(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            process = self.processes[number]
            assert process.alive, process.last_words()

    def until_they_read(self) -> None:
        """Something new in every partition."""
        before = len(self.witness.reads)

        def is_read() -> bool:
            return len({each.partition for each in self.witness.reads[before:]}) == PARTITIONS

        until(is_read, "every partition is read on")

    def until_nobody_reads(self) -> None:
        """Though there is always more to read."""

        def is_still() -> bool:
            return time.monotonic() - max(each.got for each in self.witness.reads) > SILENCE_S

        until(is_still, "nobody reads any more")

    def end(self, writer: Writer) -> None:
        written = writer.stop()
        until_read(self.witness, written)
        judge(self.witness, written)

    def close(self) -> None:
        for process in self.processes:
            if process.alive:
                process.terminate()
        self.session.close()


@pytest.fixture
def members(tmp_path: Path, running_broker: BrokerProcess, new_topic: str) -> Iterator[Members]:
    members = Members(tmp_path, running_broker, new_topic, 3)
    try:
        yield members
    finally:
        members.close()


@pytest.mark.slow
def test_one_is_killed_and_one_is_frozen(members: Members) -> None:
    with Writer(members.broker.bootstrap, members.topic, PARTITIONS, every_s=0.2) as writer:
        members.until_shared(0, 1, 2)
        members.until_they_read()
        members.processes[0].kill()
        members.until_shared(1, 2)
        members.until_they_read()
        frozen = members.processes[1]
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            members.until_shared(2)
            members.until_they_read()
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        members.until_shared(1, 2)
        members.until_they_read()
        members.end(writer)
    sessions = {each.stint.rpartition("/")[0] for each in members.witness.reads}
    assert len(sessions) == 4, "the one that was frozen has read in two sessions"


@pytest.mark.long
def test_zookeeper_is_killed_and_comes_back(tmp_path: Path, new_topic: str) -> None:
    zookeepers = ZooKeepers(tmp_path / "zookeeper")
    with ExitStack() as stack:
        stack.callback(zookeepers.close)
        zookeepers.start()
        address = f"{zookeepers.address}/{uuid.uuid4().hex}"
        broker = stack.enter_context(BrokerProcess(tmp_path / "broker", zookeeper=address))
        members = Members(tmp_path, broker, new_topic, 2)
        stack.callback(members.close)
        with Writer(broker.bootstrap, new_topic, PARTITIONS, every_s=0.2) as writer:
            members.until_shared(0, 1)
            members.until_they_read()
            zookeepers.kill()
            members.until_nobody_reads()
            zookeepers.start()
            members.until_shared(0, 1)
            members.until_they_read()
            members.end(writer)
