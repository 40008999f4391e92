"""Brokers that take connections and never answer: what they do not lead begins all the same."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from msgspec.structs import replace

from client.admin import topics as admin
from client.connection.addresses import Address
from client.connection.brokers import Brokers
from client.connection.metadata import BrokerMetadata, ClusterMetadata
from client.errors import ErrorCode, Refused
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from mirror.clusters.scanner import ClusterScanner, Scan
from mirror.config import MirrorConfig
from mirror.partitions.partition import Stage
from mirror.topics import Standing, TopicCopy
from mirror.worker.copier import Copier
from tests.client.shipped_topics import delete_before
from tests.mirror.logs import PATIENCE, values, write
from tests.mirror.workers import mirror_config
from wire.mirrored import MIRROR_OF, MirrorOf

HANGING = 9
SOON = 20.0  # seconds; less than a request is waited for


@contextmanager
def silent_broker() -> Iterator[Address]:
    """Ends the connections that it was given when it ends."""
    taken: list[socket.socket] = []
    server = socket.create_server(("127.0.0.1", 0))

    def take() -> None:
        while True:
            try:
                taken.append(server.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield Address("127.0.0.1", server.getsockname()[1])
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in (*taken, server):
            each.close()


class Known(ClusterScanner):
    """Sees what the test says."""

    def __init__(self, config: MirrorConfig, seen: Scan) -> None:
        super().__init__(config)
        self.looks = 0
        self._seen = seen

    def look(self) -> Scan:
        self.looks += 1
        return replace(self._seen, asked_at=time.monotonic())

    def set_gaps(self, here: str, changes: object) -> None:
        if here.endswith(".refused"):
            raise Refused(here, ErrorCode.not_controller)
        super().set_gaps(here, changes)  # type: ignore[arg-type]


def copied(there: Brokers, here: Brokers, topic: str) -> TopicCopy:
    """A topic of one partition, with its copy."""
    admin.create_topic(there, topic, partitions=1)
    mark = {MIRROR_OF: str(MirrorOf("dc1", topic, ""))}
    admin.create_topic(here, f"dc1.{topic}", partitions=1, configs=mark)
    return TopicCopy(f"dc1.{topic}", topic, Standing.COPIED, partitions=1)


def led_by(known: ClusterMetadata, leaders: dict[str, int]) -> ClusterMetadata:
    """With these topics led by other brokers than they are."""
    topics = dict(known.topics)
    for name, leader in leaders.items():
        (partition,) = topics[name].partitions
        topics[name] = replace(topics[name], partitions=(replace(partition, leader=leader),))
    return replace(known, topics=topics)


async def until_copied(copying: Copier, looking: Known, topic: str, ends: ExitStack) -> list[str]:
    """And until it has been looked at again some times; topics of which nobody has given up by then
    to ask where they go on."""

    def wait() -> list[str]:
        wait_until(lambda: _is_copied(copying, topic), within=SOON, what="it is copied")
        looks = looking.looks + 3
        wait_until(lambda: looking.looks >= looks, within=SOON, what="it is looked at again")
        copied = copying.partitions.copy().values()
        return [each.here[0] for each in copied if not each.trouble]

    told = asyncio.Event()
    running = asyncio.create_task(copying.run(told))
    try:
        return await asyncio.to_thread(wait)
    finally:
        told.set()
        await asyncio.to_thread(ends.close)
        await asyncio.wait_for(running, PATIENCE)


def _is_copied(copying: Copier, topic: str) -> bool:
    partition = copying.partitions.get((topic, 0))
    return partition is not None and partition.stage is Stage.COPYING


def test_what_hangs_leaves_threads_for_looks_and_for_others(
    source: BrokerProcess, target: BrokerProcess, there: Brokers, here: Brokers, new_topic: str
) -> None:
    copies = [copied(there, here, f"{new_topic}-{each}") for each in range(HANGING + 1)]
    with ExitStack() as ends:
        silent = {100 + n: ends.enter_context(silent_broker()) for n in range(HANGING)}
        known = admin.all_topics(there)
        hang = {broker: BrokerMetadata(broker, at) for broker, at in silent.items()}
        known = replace(known, brokers={**known.brokers, **hang})
        leaders = {copy.there: broker for copy, broker in zip(copies, hang, strict=False)}
        by_name = {copy.here: copy for copy in copies}
        seen = Scan(0.0, led_by(known, leaders), admin.all_topics(here), by_name)
        config = mirror_config(source, target, interval=0.2)

        async def run() -> list[str]:
            looking = Known(config, seen)
            return await until_copied(Copier(config, looking), looking, copies[-1].here, ends)

        assert set(asyncio.run(run())) == by_name.keys()


def test_a_gap_that_cannot_be_let_pass_holds_up_its_topic_alone(  # noqa: PLR0917
    source: BrokerProcess,
    target: BrokerProcess,
    there: Brokers,
    here: Brokers,
    new_topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    refused, other = (copied(there, here, f"{new_topic}.{each}") for each in ("refused", "other"))
    for each in (refused, other):
        write(there, each.there, values(0, 20))
        delete_before(there, each.there, 10)
    by_name = {copy.here: copy for copy in (refused, other)}
    seen = Scan(0.0, admin.all_topics(there), admin.all_topics(here), by_name)
    config = mirror_config(source, target, interval=0.2)

    async def run() -> tuple[Stage, str]:
        looking = Known(config, seen)
        copying = Copier(config, looking, accepts=lambda _topic, _partition: True)
        await until_copied(copying, looking, other.here, ExitStack())
        partition = copying.partitions[refused.here, 0]
        return partition.stage, partition.trouble

    stage, trouble = asyncio.run(run())
    assert stage is Stage.WAITING
    assert "not controller" in trouble
    assert f"partition waiting partition={refused.here}-0" in caplog.text
    assert f"partition waiting partition={other.here}-0" not in caplog.text
