"""A broker that goes by ACLs, and clients who are somebody: by their certificates, with librdkafka.

What each API asks for is tried in tests/broker/api/test_authorization.py; here is a whole client's
way. kafka-python makes ACLs, too."""

import contextlib
import ssl
import struct
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from tests.system.guarded import WITHIN, Guarded, allow
from tests.system.raw import (
    INIT_PRODUCER_ID,
    PRODUCE,
    Produced,
    RawConnection,
    int32,
    produce_body,
    read_produced,
    record_batch,
    string,
)
from tests.system.raw_login import over_tls
from wire.errors import ErrorCode

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 calls outdated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.admin import ACL, ACLFilter, KafkaAdminClient
    from kafka.admin import ACLOperation as PythonOperation
    from kafka.admin import ACLPermissionType as PythonPermission
    from kafka.admin import ACLResourcePatternType as PythonPatternType
    from kafka.admin import ResourcePattern as PythonPattern
    from kafka.admin import ResourcePatternFilter as PythonPatternFilter
    from kafka.admin import ResourceType as PythonKind


@pytest.fixture(scope="module")
def guarded(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    address = f"{zookeeper.address}/permissions"
    made = Guarded(tmp_path_factory.mktemp("permissions"), address)
    with contextlib.ExitStack() as stack:
        for broker in made.brokers:
            stack.enter_context(broker)
        yield made


def write(settings: dict[str, Any], topic: str, *, idempotent: bool = True) -> int | None:
    """What a producer of one message is told; None if it is there."""
    told: list[KafkaError | None] = []
    producer = Producer(
        {**settings, "enable.idempotence": idempotent, "message.timeout.ms": 20_000}
    )
    try:
        producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
        producer.flush(WITHIN)
    except (KafkaException, SystemError) as fatal:
        # What is fatal it raises while it calls back, which Python then complains of.
        cause = fatal if isinstance(fatal, KafkaException) else fatal.__cause__
        assert cause is not None
        return int(cause.args[0].code())
    (error,) = told
    return error and error.code()


def read(settings: dict[str, Any], topic: str) -> KafkaError | bytes | None:
    """A message, or why there is none."""
    with contextlib.closing(Consumer({**settings, "group.id": "by-hand"})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(WITHIN)
        assert message is not None
        return message.error() or message.value()


def test_who_may_write_may_not_read(guarded: Guarded) -> None:
    admin = AdminClient(guarded.client("admin"))
    admin.create_topics([NewTopic("views", 1, 1)])["views"].result(WITHIN)
    alice, bob = guarded.client("alice"), guarded.client("bob")
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "views" not in AdminClient(alice).list_topics(timeout=WITHIN).topics

    allow(admin, "*", AclOperation.READ, "by-hand", ResourceType.GROUP)
    allow(admin, "alice", AclOperation.WRITE, "views")
    allow(admin, "bob", AclOperation.READ, "views")
    assert write(alice, "views") is None
    assert read(bob, "views") == b"x"
    error = read(alice, "views")
    assert isinstance(error, KafkaError)
    assert error.code() == refused
    assert write(bob, "views", idempotent=False) == refused
    # He may write nowhere, so that his producer is given no identity, and ends at once.
    assert write(bob, "views") == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert "views" in AdminClient(alice).list_topics(timeout=WITHIN).topics


def connected(guarded: Guarded, who: str, broker: int) -> RawConnection:
    context = ssl.create_default_context(cafile=str(guarded.authority.ca))
    context.load_cert_chain(str(guarded.authority.sign(who).both))
    return over_tls(f"127.0.0.1:{guarded.ports[broker]}", context)


def test_a_producer_id_is_of_no_use_to_anybody_else(guarded: Guarded) -> None:
    admin = AdminClient(guarded.client("admin"))
    admin.create_topics([NewTopic("stolen", 2, 1)])["stolen"].result(WITHIN)
    for who in ("alice", "mallory"):
        allow(admin, who, AclOperation.WRITE, "stolen")
    partitions = admin.list_topics("stolen", timeout=WITHIN).topics["stolen"].partitions
    leaders = {index: each.leader - 1 for index, each in partitions.items()}
    assert set(leaders.values()) == {0, 1}, "the id comes from one broker, and is used on both"
    with connected(guarded, "alice", 0) as alice:
        answer = alice.ask(INIT_PRODUCER_ID, 0, string(None) + int32(60_000))
    (producer_id,) = struct.unpack_from(">q", answer, 6)

    def produced(client: RawConnection, index: int, sequence: int) -> bytes:
        batch = record_batch([b"x"], producer_id=producer_id, sequence=sequence)
        return client.ask(PRODUCE, 8, produce_body("stolen", index, batch))

    for index, leader in leaders.items():
        with (
            connected(guarded, "alice", leader) as alice,
            connected(guarded, "mallory", leader) as mallory,
        ):
            assert read_produced(produced(alice, index, 0)) == Produced(0, 0)
            for sequence in (0, 1, 9):
                refused = produced(mallory, index, sequence)
                assert read_produced(refused) == Produced(ErrorCode.unknown_producer_id, -1)
                assert b"was not assigned to mallory" in refused, "and nothing of any sequence"
            assert read_produced(produced(alice, index, 1)) == Produced(0, 1)
        assert "UNKNOWN_PRODUCER_ID" in guarded.brokers[leader].log()


def test_kafka_python_makes_finds_and_removes_rules(guarded: Guarded) -> None:
    me = guarded.authority.sign("admin")
    with contextlib.closing(
        KafkaAdminClient(
            bootstrap_servers=f"127.0.0.1:{guarded.ports[0]}",
            security_protocol="SSL",
            ssl_cafile=str(guarded.authority.ca),
            ssl_certfile=str(me.certificate),
            ssl_keyfile=str(me.key),
        )
    ) as admin:
        pattern = PythonPattern(PythonKind.GROUP, "team-a.", PythonPatternType.PREFIXED)
        made = ACL("User:eve", "*", PythonOperation.READ, PythonPermission.ALLOW, pattern)
        assert admin.create_acls([made])["failed"] == []
        everything = ACLFilter(
            None, None, PythonOperation.ANY, PythonPermission.ANY,
            PythonPatternFilter(PythonKind.GROUP, "team-a.1", PythonPatternType.MATCH),
        )  # fmt: skip
        assert admin.describe_acls(everything)[0] == [made]
        admin.delete_acls([everything])
        assert admin.describe_acls(everything)[0] == []
