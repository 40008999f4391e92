"""Subscriptions and assignments, as kio and Kafka's own class have them, and hostile bytes."""

import struct
import warnings
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.static.constants import EntityType
from msgspec.structs import replace

from tests.wire.kio_messages import assert_same, foreign_bytes, messages
from wire.consumer_protocol import (
    LATEST,
    Assignment,
    Subscription,
    TopicPartitions,
    by_topic,
    pairs,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from wire.errors import MemberDataError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, as it is imported

VERSIONS = range(LATEST + 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(max_size=12)
USER_DATA = st.none() | st.binary(max_size=40)
PARTITIONS = st.lists(
    st.builds(TopicPartitions, topic=NAMES, partitions=st.lists(INT32, max_size=4).map(tuple)),
    max_size=3,
).map(tuple)
SUBSCRIPTIONS = st.builds(
    Subscription,
    topics=st.lists(NAMES, max_size=4).map(tuple),
    user_data=USER_DATA,
    owned_partitions=PARTITIONS,
    generation_id=INT32,
    rack_id=st.none() | NAMES,
)
ASSIGNMENTS = st.builds(Assignment, assigned_partitions=PARTITIONS, user_data=USER_DATA)

OWNED = by_topic([("ünder", 1), ("logs", 3), ("logs", 0), ("logs", 3)])
SAID = Subscription(
    topics=("logs", "ünder"),
    user_data=b"\0own",
    owned_partitions=OWNED,
    generation_id=7,
    rack_id="r1",
)
GIVEN = Assignment(assigned_partitions=OWNED, user_data=b"\0own")

# What org.apache.kafka.clients.consumer.internals.ConsumerProtocol of Apache Kafka 3.9.1 makes of
# SAID (serializeSubscription, for each version) and of GIVEN (serializeAssignment), in hex.
_TOPICS_AND_USER_DATA = "0000000200046c6f67730006c3bc6e64657200000004006f776e"
_OWNED = "0000000200046c6f67730000000200000000000000030006c3bc6e6465720000000100000001"
JAVA_SUBSCRIPTIONS = (
    "0000" + _TOPICS_AND_USER_DATA,
    "0001" + _TOPICS_AND_USER_DATA + _OWNED,
    "0002" + _TOPICS_AND_USER_DATA + _OWNED + "00000007",
    "0003" + _TOPICS_AND_USER_DATA + _OWNED + "00000007" + "00027231",
)
JAVA_ASSIGNMENT = "0003" + _OWNED + "00000004006f776e"


def as_of(version: int, subscription: Subscription) -> Subscription:
    """What a version can say of it."""
    if version < 1:
        subscription = replace(subscription, owned_partitions=())
    if version < 2:
        subscription = replace(subscription, generation_id=-1)
    if version < 3:
        subscription = replace(subscription, rack_id=None)
    return subscription


@given(SUBSCRIPTIONS, ASSIGNMENTS)
def test_what_is_written_is_read(subscription: Subscription, assignment: Assignment) -> None:
    for version in VERSIONS:
        written = write_subscription(subscription, version)
        assert read_subscription(written) == as_of(version, subscription)
        assert read_assignment(memoryview(write_assignment(assignment, version))) == assignment


@pytest.mark.parametrize("version", VERSIONS)
def test_kio_writes_we_read_and_write_the_same(version: int) -> None:
    for kind, read, write in (
        ("subscription", read_subscription, write_subscription),
        ("assignment", read_assignment, write_assignment),
    ):
        schema = load_entity_schema(f"consumer_protocol_{kind}", version, EntityType.data)
        for theirs in messages(schema, f"{kind} {version}"):
            body = struct.pack(">h", version) + foreign_bytes(theirs)
            ours: Any = read(body)
            assert_same(ours, theirs, kind)
            assert write(ours, version) == body


@given(SUBSCRIPTIONS, ASSIGNMENTS, st.integers(LATEST + 1, 2**15 - 1), st.binary(max_size=20))
def test_of_a_newer_version_the_part_that_is_known_is_read(
    subscription: Subscription, assignment: Assignment, newer: int, more: bytes
) -> None:
    version = struct.pack(">h", newer)
    assert read_subscription(version + write_subscription(subscription)[2:] + more) == subscription
    assert read_assignment(version + write_assignment(assignment)[2:] + more) == assignment


@given(SUBSCRIPTIONS, st.sampled_from(VERSIONS), st.sampled_from(VERSIONS))
def test_who_says_a_version_and_writes_an_older_one_is_understood(
    subscription: Subscription, said: int, written: int
) -> None:
    body = struct.pack(">h", max(said, written)) + write_subscription(subscription, written)[2:]
    assert read_subscription(body) == as_of(written, subscription)


@given(SUBSCRIPTIONS, ASSIGNMENTS, st.data())
def test_what_is_cut_off_is_refused_or_says_less(
    subscription: Subscription, assignment: Assignment, data: st.DataObject
) -> None:
    whole = write_subscription(subscription)
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    older = {write_subscription(subscription, version)[2:] for version in VERSIONS}
    if cut[2:] in older:
        assert read_subscription(cut).topics == subscription.topics
    else:
        with pytest.raises(MemberDataError):
            read_subscription(cut)
    whole = write_assignment(assignment)
    with pytest.raises(MemberDataError):
        read_assignment(whole[: data.draw(st.integers(1, len(whole) - 1))])


@pytest.mark.fuzz
@given(st.binary(max_size=200) | SUBSCRIPTIONS.map(write_subscription), st.data())
def test_nothing_but_its_own_error_escapes_from_garbage(body: bytes, data: st.DataObject) -> None:
    spoilt = bytearray(body)
    for _ in range(data.draw(st.integers(0, 3)) if spoilt else 0):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    for read in (read_subscription, read_assignment):
        with suppress(MemberDataError):
            read(bytes(spoilt))


@pytest.mark.parametrize("count", [2**31 - 1, 100_001, -1, -(2**31)])
def test_absurd_counts_are_refused(count: int) -> None:
    body = struct.pack(">hi", 0, count) + bytes(100)
    for read in (read_subscription, read_assignment):
        with pytest.raises(MemberDataError, match="array length"):
            read(body)


def test_a_version_below_the_first_is_refused() -> None:
    with pytest.raises(MemberDataError, match=r"invalid subscription of .* bytes: version -1"):
        read_subscription(b"\xff\xff" + write_subscription(SAID)[2:])


def test_no_bytes_say_nothing() -> None:
    assert read_subscription(b"") == Subscription()
    assert read_assignment(b"") == Assignment()


def test_partitions_are_grouped_in_one_order() -> None:
    assert (
        TopicPartitions(topic="logs", partitions=(0, 3)),
        TopicPartitions(topic="ünder", partitions=(1,)),
    ) == OWNED
    assert list(pairs(OWNED)) == [("logs", 0), ("logs", 3), ("ünder", 1)]
    assert by_topic(pairs(reversed(OWNED))) == OWNED
    assert by_topic([]) == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_kafkas_own_class_writes_the_same(version: int) -> None:
    assert write_subscription(SAID, version).hex() == JAVA_SUBSCRIPTIONS[version]
    assert read_subscription(bytes.fromhex(JAVA_SUBSCRIPTIONS[version])) == as_of(version, SAID)


def test_kafkas_own_class_writes_the_same_assignment() -> None:
    assert write_assignment(GIVEN).hex() == JAVA_ASSIGNMENT
    assert read_assignment(bytes.fromhex(JAVA_ASSIGNMENT)) == GIVEN
