"""One registry writes. Whoever did before it is refused by the brokers, and notices."""

import threading
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.connection.security import Mechanism
from client.errors import ErrorCode, Refused
from client.producing.producer import Identity, Producer, take_identity
from client.reading.offsets import End, start_offsets
from cluster.errors import Unavailable
from cluster.layout import nodes, paths
from cluster.layout.nodes import WriterEpochNode
from cluster.registry_writer import LAST_PRODUCER_EPOCH
from cluster.session.operations import Set
from cluster.session.session import Session
from harness.penstock.secured_broker import SecuredBroker
from harness.processes.waiting import wait_until
from registry.config import Timeouts
from registry.errors import ErrorAnswer, RegistryFailure
from registry.log.leadership import Alone
from registry.schemas_topic.values import Decision
from tests.cluster.conftest import expire
from tests.registry.conftest import both
from tests.registry.numbers import DELETE, Numbers, RunningRegistry, batches, numbered

FENCED = {ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced}


def session_of(running: RunningRegistry) -> Session:
    session = running.registry._session
    assert session is not None
    return session


def wait_writer(*candidates: RunningRegistry) -> RunningRegistry:
    """The one of them that is the writer, once one is."""
    wait_until(
        lambda: any(each.registry.is_writer for each in candidates), within=30, what="one writes"
    )
    return next(each for each in candidates if each.registry.is_writer)


@both
def test_an_older_epoch_is_refused_by_the_broker(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    """What all of it rests on, with nothing of the registry's: an id that writers share."""
    admin.create_topic(brokers, new_topic, partitions=1)
    shared = take_identity(brokers).producer_id

    def writer(epoch: int) -> Producer:
        return Producer(brokers, new_topic, create=False, identity=Identity(shared, epoch))

    def write(producer: Producer) -> None:
        producer.send(b"value", b"key")
        producer.flush()

    first, second = writer(3), writer(4)
    write(first)
    write(first)
    write(second)
    for late in (first, writer(3), writer(0)):
        with pytest.raises(Refused) as refused:
            write(late)
        assert refused.value.code in FENCED
    write(second)
    retired = writer(LAST_PRODUCER_EPOCH)
    write(retired)
    with suppress(Refused):
        write(writer(LAST_PRODUCER_EPOCH))  # its numbers are known, so it is not appended
    with pytest.raises(Refused) as refused:
        write(second)
    assert refused.value.code in FENCED
    assert start_offsets(brokers, new_topic, [0], End()) == {0: 5}


class Pause:
    """What a stopped process looks like to others: it has decided, and goes on much later."""

    def __init__(self, name: bytes) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()
        self._decide = numbered(name)

    def __call__(self, contents: Numbers) -> Decision[int]:
        decision = self._decide(contents)
        self.reached.set()
        assert self.over.wait(60)
        return decision


@both
def test_a_writer_that_was_paused_gives_no_number_twice(
    bootstrap: str, chroot: str, new_topic: str
) -> None:
    with ExitStack() as stack:
        start = partial(RunningRegistry, bootstrap, new_topic, zookeeper=chroot)
        first = stack.enter_context(start(port=1))
        assert wait_writer(first) is first  # before there is anybody else who could be
        second = stack.enter_context(start(port=2))
        assert first.number(b"a") == 1
        pause = Pause(b"late")
        late = first.begin(pause, DELETE)
        assert pause.reached.wait(60)
        expire(session_of(first))
        assert wait_writer(second) is second
        assert second.number(b"b") == 2
        pause.over.set()
        with pytest.raises(ErrorAnswer) as answered:
            late.result(60)
        assert answered.value.code == 50001
        wait_until(lambda: not first.registry.is_writer, within=20, what="it has noticed")
        assert second.number(b"c") == 3
        wait_until(lambda: len(first.names()) == 3, within=20, what="it has read them")
        assert first.names() == second.names() == {b"a": 1, b"b": 2, b"c": 3}
        assert first.registry.failure == ""
    written_by = [each.header.producer_epoch for each in batches(bootstrap, new_topic)]
    assert written_by == sorted(written_by)


def test_writers_succeed_each_other_and_all_know_where(
    bootstrap: str, chroot: str, new_topic: str
) -> None:
    with (
        RunningRegistry(bootstrap, new_topic, zookeeper=chroot, port=1) as first,
        RunningRegistry(bootstrap, new_topic, zookeeper=chroot, port=2) as second,
    ):
        wait_writer(first)
        for number in range(1, 5):
            writer = wait_writer(first, second)
            assert writer.number(b"%d" % number) == number
            address = "127.0.0.1:1" if writer is first else "127.0.0.1:2"
            wait_until(
                lambda address=address: first.registry.writer == second.registry.writer == address,
                within=20,
                what="both know the writer",
            )
            assert not (first if writer is second else second).registry.is_writer
            expire(session_of(writer))
        first.stop()
        assert wait_writer(second).number(b"5") == 5


def test_who_stops_leaves_the_office_at_once(bootstrap: str, chroot: str, new_topic: str) -> None:
    with RunningRegistry(bootstrap, new_topic, zookeeper=chroot, port=2) as second:
        with RunningRegistry(bootstrap, new_topic, zookeeper=chroot, port=1) as first:
            wait_writer(second)
            second.number(b"a")
            expire(session_of(second))
            wait_writer(first, second)
        wait_until(lambda: second.registry.is_writer, within=3, what="the other one is writer")
        assert second.number(b"b") == 2


def epoch_of_writer(session: Session, topic: str) -> int:
    """Of the last one that was elected; -1 while nobody can say."""
    path = paths.registry_epoch(topic)
    try:
        node = session.read(path)
    except Unavailable:
        return -1
    return -1 if node is None else nodes.decode(path, node.data, WriterEpochNode).epoch


def wear(session: Session, topic: str, last: Identity) -> None:
    """Have the next writer follow upon this one."""
    path = paths.registry_epoch(topic)
    node = session.read(path)
    assert node is not None
    found = nodes.decode(path, node.data, WriterEpochNode)
    worn = WriterEpochNode(
        cluster_id=found.cluster_id,
        epoch=found.epoch,
        producer_id=last.producer_id,
        producer_epoch=last.epoch,
        retired_id=None,
    )
    session.write([Set(path, nodes.encode(worn))])


@both
def test_when_producer_epochs_run_out_the_old_producer_is_kept_out(
    bootstrap: str, brokers: Brokers, chroot: str, new_topic: str
) -> None:
    worn = Identity(take_identity(brokers).producer_id, LAST_PRODUCER_EPOCH - 1)
    with RunningRegistry(bootstrap, new_topic, zookeeper=chroot) as running:
        wait_writer(running)
        wear(session_of(running), new_topic, worn)
    paused = Producer(brokers, new_topic, create=False, identity=worn)
    paused.send(b"1", b"a")
    paused.flush()
    with RunningRegistry(bootstrap, new_topic, zookeeper=chroot) as running:
        assert running.number(b"b") == 2
        paused.send(b"2", b"late")
        with pytest.raises(Refused) as refused:
            paused.flush()
        assert refused.value.code in FENCED
        assert running.number(b"c") == 3
        session = session_of(running)
        before = epoch_of_writer(session, new_topic)
        expire(session)
        wait_until(
            lambda: epoch_of_writer(session, new_topic) > before,
            within=20,
            what="it is elected anew",
        )
        wait_writer(running)
        assert running.number(b"d") == 4
        assert running.registry.failure == ""
    *_, fence, first, _, _, again, _ = [each.header for each in batches(bootstrap, new_topic)]
    assert (fence.producer_id, fence.producer_epoch) == (worn.producer_id, LAST_PRODUCER_EPOCH)
    assert (first.producer_epoch, again.producer_epoch) == (0, 1)
    assert first.producer_id == again.producer_id != worn.producer_id


def test_a_producer_id_that_is_not_its_own_is_given_up(chroot: str, tmp_path: Path) -> None:
    """The registry's principal was renamed, or the cluster's key was lost."""
    place = f"{chroot}-of-registries"
    with SecuredBroker(tmp_path, zookeeper=chroot) as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512, "bob")) as brokers:
            theirs = take_identity(brokers)
        alice = secured.security(Mechanism.SCRAM_SHA_512, "alice")
        bootstrap = f"127.0.0.1:{secured.locked}"

        def started() -> RunningRegistry:
            return RunningRegistry(bootstrap, "_schemas", zookeeper=place, security=alice)

        for number, last_epoch in enumerate([0, LAST_PRODUCER_EPOCH - 1]):
            with started() as running:
                assert running.number(b"%d" % number) == number + 1
                wear(session_of(running), "_schemas", Identity(theirs.producer_id, last_epoch))
        with started() as running:
            assert running.number(b"last") == 3
            assert running.registry.failure == ""


@both
def test_whoever_writes_without_being_elected_is_noticed(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    with RunningRegistry(bootstrap, new_topic) as running:
        assert running.number(b"a") == 1
        intruder = Producer(brokers, new_topic, create=False)
        intruder.send(b"7", b"theirs")
        intruder.flush()
        said = running.wait_gone()
        assert said.startswith(f"topic {new_topic} has another writer: offset 2,")
        with pytest.raises(ErrorAnswer) as answered:
            running.write(numbered(b"b"))
        assert answered.value.code == 50001
        assert running.names() == {b"a": 1, b"theirs": 7}


def test_a_second_one_without_zookeeper_ends_the_first(bootstrap: str, new_topic: str) -> None:
    with RunningRegistry(bootstrap, new_topic) as first:
        assert first.number(b"a") == 1
        with RunningRegistry(bootstrap, new_topic) as second:
            assert "has another writer" in first.wait_gone()
            assert second.number(b"b") == 2


def test_what_was_written_before_is_nobody_s_concern(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    """A topic that another registry has written, and writes no more."""
    admin.create_topic(brokers, new_topic, partitions=1, configs={"cleanup.policy": "compact"})
    other = Producer(brokers, new_topic, create=False)
    other.send(b"7", b"theirs")
    other.flush()
    with RunningRegistry(bootstrap, new_topic) as running:
        assert running.number(b"theirs") == 7
        assert running.number(b"ours") == 8
        assert running.registry.failure == ""


def test_one_that_is_alone_counts_its_own_epochs() -> None:
    """Each is newer than what the last one may still have under way."""
    ids = iter([7, 8])
    alone = Alone("here:1", lambda: next(ids))
    taken = []
    for _ in range(LAST_PRODUCER_EPOCH + 2):
        taken.append(alone.take(lambda: False))
        assert alone.epoch == taken[-1]
        alone.give_up()
        assert alone.epoch is None
    first, second, *_, last, new, newer = [epoch for epoch in taken if epoch is not None]
    assert (first.producer_id, first.producer_epoch, first.retired_id) == (7, 0, None)
    assert second.producer_epoch == 1
    assert last.producer_epoch == LAST_PRODUCER_EPOCH - 1
    assert (new.producer_id, new.producer_epoch, new.retired_id) == (8, 0, 7)
    assert newer.producer_epoch == 1
    assert alone.take(lambda: True) is None


def test_two_of_one_address_are_told_apart(bootstrap: str, chroot: str, new_topic: str) -> None:
    """The later takes the earlier for its own dead process; the earlier says so and ends."""
    with RunningRegistry(bootstrap, new_topic, zookeeper=chroot, port=1) as first:
        wait_writer(first)
        with RunningRegistry(bootstrap, new_topic, zookeeper=chroot, port=1) as second:
            assert "claims the address 127.0.0.1:1 too" in first.wait_gone()
            first.stop()
            assert wait_writer(second).number(b"a") == 1


def test_zookeeper_of_another_cluster_is_refused(
    bootstrap: str, running_kafka: object, chroot: str, new_topic: str
) -> None:
    other: str = running_kafka.bootstrap  # type: ignore[attr-defined]
    with (
        RunningRegistry(bootstrap, new_topic, zookeeper=chroot),
        pytest.raises(RegistryFailure, match="give each cluster a chroot of its own"),
        RunningRegistry(other, new_topic, zookeeper=chroot),
    ):
        pass


def test_zookeeper_that_is_not_there_is_said(bootstrap: str, new_topic: str) -> None:
    with (
        pytest.raises(RegistryFailure, match=r"no ZooKeeper answers at 127\.0\.0\.1:1"),
        RunningRegistry(
            bootstrap, new_topic, zookeeper="127.0.0.1:1", patience=Timeouts(start=0.5)
        ),
    ):
        pass
