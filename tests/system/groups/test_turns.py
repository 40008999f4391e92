"""Groups that rebalance without end keep no other group waiting, of either kind."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from bench.loads.group_members import group_members
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.group.consumer import GroupConsumer
from client.reading.offsets import Beginning
from cluster.session.session import Session
from harness.penstock.broker import BrokerProcess
from tests.system.groups.history import WITHIN, History, Source
from tests.system.groups.members import Life, Members, librdkafka

RESTLESS = 16  # members at a time, each of a group of its own
ROUND = 2.0  # seconds


@contextmanager
def restless(broker: BrokerProcess) -> Iterator[None]:
    """Members that join and leave without end, until it is over."""
    rounds: list[int] = []
    begun, end = threading.Event(), threading.Event()
    name = f"restless-{uuid.uuid4().hex[:8]}"

    def come_and_go() -> None:
        with group_members(broker.port) as members:
            members.do("come", [f"{name}-{each}" for each in range(RESTLESS)], 1)
            begun.set()
            while not end.is_set():
                rounds.append(members.do("come_and_go", ROUND, f"{name}-{len(rounds)}").count)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert begun.wait(WITHIN)
        yield
    finally:
        end.set()
        thread.join()
    assert rounds
    assert all(rounds), "somebody has rebalanced all the time"


def test_groups_of_both_kinds_read_on(
    broker: BrokerProcess, map_address: str, source: Source
) -> None:
    def paper(life: Life) -> None:
        with (
            Brokers(Bootstrap.of(life.bootstrap)) as brokers,
            closing(Session.connect(map_address, secret=None, makes_map=False)) as session,
            GroupConsumer(brokers, session, life.group, [life.topic], start=Beginning()) as mine,
        ):
            while not life.end.is_set():
                for message in mine.poll(0.2):
                    life.read(message.record.value or b"")
                mine.commit()

    groups = []
    with ExitStack() as stack:
        for kind in (librdkafka(), paper):
            history, name = History(), f"group-{uuid.uuid4().hex[:8]}"
            members = Members(broker.bootstrap, name, source.topic, history)
            stack.enter_context(members.all_stopped())
            for each in ("first", "second"):
                members.start(each, kind)
            groups.append((history, members))

        def all_read(*names: str) -> None:
            for history, _ in groups:
                history.wait_until_each_reads(set(names), source.write)

        all_read("first", "second")
        with restless(broker):
            for _ in range(3):
                all_read("first", "second")
            groups[0][1].start("third", librdkafka())
            groups[0][0].wait_until_each_reads({"first", "second", "third"}, source.write)
        for history, _ in groups:
            history.wait_for(source.written)
