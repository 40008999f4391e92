"""What each API does with and without the rights that the table of rules names.

Nobody logs in here: rules are for `User:ANONYMOUS`, or for the host that the tests come from, and
they are put into ZooKeeper as another broker would put them there.
"""

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from broker.api.operations import RULES, Rule
from broker.api.table import TABLE
from broker.config import AuthorizationConfig
from broker.permissions import bits
from cluster import acls
from tests.broker.api.questions import QUESTIONS, Ask, ask_fetch, ask_metadata
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.acls import (
    OPERATIONS_ON,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from wire.errors import ErrorCode
from wire.messages import (
    delete_topics,
    describe_cluster,
    describe_log_dirs,
    fetch,
    metadata,
    produce,
)

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
DENY = Permission.DENY
REFUSALS = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
}


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig(super_users=("User:admin",))}


@pytest.fixture
def topic(client: RawClient, permit: Callable[[Rules], None]) -> str:
    permit(EVERYTHING)
    name = f"t{uuid.uuid4().hex[:10]}"
    (result,) = client.create(name).topics
    assert result.error_code is ErrorCode.none, result.error_message
    assert client.produce(name, batch(1)).error_code is ErrorCode.none
    return name


def codes(answer: Any) -> set[ErrorCode]:
    """All error codes in a response."""
    found: set[ErrorCode] = set()
    if isinstance(answer, tuple):
        for each in answer:
            found |= codes(each)
    elif isinstance(answer, Struct):
        for name in answer.__struct_fields__:
            value = getattr(answer, name)
            found |= {value} if name == "error_code" else codes(value)
    return found


def _asked(key: int) -> list[Rule]:
    """The rows that can be tried: there are no transactions."""
    return [each for each in RULES[key] if each.kind is not ResourceType.TRANSACTIONAL_ID]


ROWS = [
    pytest.param(each, question, id=f"{key}-{each.operation.words}-{each.kind.words}")
    for key, questions in QUESTIONS.items()
    for each, question in zip(_asked(key), questions, strict=True)
]


def test_every_api_has_its_rules_and_every_rule_its_question() -> None:
    assert {row.key for row in TABLE} == RULES.keys(), (
        "an API without a row in broker.api.operations"
    )
    assert {key for key in RULES if _asked(key)} == QUESTIONS.keys()


@pytest.mark.parametrize(("needed", "ask"), ROWS)
def test_with_all_rights_but_one_an_api_refuses(
    client: RawClient, topic: str, permit: Callable[[Rules], None], needed: Rule, ask: Ask
) -> None:
    denied = [rule(operation, kind, permission=DENY) for operation, kind in needed.rights]
    permit([*EVERYTHING, *denied])
    assert codes(ask(client, topic)) & REFUSALS


@pytest.mark.parametrize(("needed", "ask"), ROWS)
def test_with_that_right_alone_it_serves(
    client: RawClient, topic: str, permit: Callable[[Rules], None], needed: Rule, ask: Ask
) -> None:
    for operation, kind in reversed(needed.rights):
        rights = [rule(operation, kind)]
        if needed.needed_for == "topics that are created by asking":
            rights.append(rule(Operation.DESCRIBE))
        if needed.besides is not None:
            rights.append(rule(*needed.besides))
        permit(rights)
        assert not codes(ask(client, topic)) & REFUSALS, (operation, kind)


@pytest.mark.parametrize(("needed", "ask"), ROWS)
def test_without_any_rule_it_refuses(
    client: RawClient, topic: str, permit: Callable[[Rules], None], needed: Rule, ask: Ask
) -> None:
    permit([])
    found = codes(ask(client, topic))
    assert found & REFUSALS
    # What is there and what is not is answered alike.
    assert codes(ask(client, "no-such-topic")) == found


def test_a_rule_may_be_for_a_host(
    client: RawClient, topic: str, permit: Callable[[Rules], None]
) -> None:
    permit([rule(Operation.WRITE, name=topic, principal="User:*", host="127.0.0.1")])
    assert client.produce(topic, batch(1)).error_code is ErrorCode.none
    permit([rule(Operation.WRITE, name=topic, principal="User:*", host="127.0.0.2")])
    refused = client.produce(topic, batch(1))
    assert refused.error_code is ErrorCode.topic_authorization_failed


def test_all_topics_are_those_that_may_be_described(
    client: RawClient, topic: str, permit: Callable[[Rules], None]
) -> None:
    (other,) = client.create(f"other{uuid.uuid4().hex[:8]}").topics
    permit([rule(Operation.WRITE, name="other", pattern_type=PatternType.PREFIXED)])
    everything = metadata.MetadataRequest(topics=None)
    seen = {each.name for each in client.ask(metadata.API, 12, everything).topics}
    assert other.name in seen
    assert topic not in seen
    (hidden,) = ask_metadata(client, topic).topics
    assert hidden.error_code is ErrorCode.topic_authorization_failed
    assert (hidden.partitions, hidden.topic_id) == ((), None)


def test_by_its_id_a_topics_name_is_not_told(
    client: RawClient, topic: str, permit: Callable[[Rules], None]
) -> None:
    (found,) = ask_metadata(client, topic).topics
    permit([])
    asked = metadata.MetadataRequestTopic(topic_id=found.topic_id, name=None)
    request = metadata.MetadataRequest(topics=(asked,), allow_auto_topic_creation=False)
    (hidden,) = client.ask(metadata.API, 12, request).topics
    assert (hidden.error_code, hidden.name) == (ErrorCode.topic_authorization_failed, None)
    state = delete_topics.DeleteTopicState(topic_id=found.topic_id, name=None)
    for rules in ([], [rule(Operation.WRITE, name=topic)]):
        permit(rules)
        request_ = delete_topics.DeleteTopicsRequest(topics=(state,), timeout=20_000)
        (refused,) = client.ask(delete_topics.API, 6, request_).responses
        assert refused.error_code is ErrorCode.topic_authorization_failed
        assert refused.name == (topic if rules else None)


def test_authorized_operations_are_what_is_allowed(
    client: RawClient, topic: str, permit: Callable[[Rules], None]
) -> None:
    permit(
        [
            rule(Operation.READ, name=topic),
            rule(Operation.ALTER_CONFIGS),
            rule(Operation.DESCRIBE, CLUSTER),
            rule(Operation.CREATE, CLUSTER),
        ]
    )
    request = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(name=topic),),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    for _ in range(2):  # described, and kept
        answer = client.ask(metadata.API, 10, request)
        assert answer.topics[0].topic_authorized_operations == bits(
            [
                *(Operation.READ, Operation.DESCRIBE),
                *(Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS),
            ]
        )
        on_cluster = bits([Operation.DESCRIBE, Operation.CREATE])
        assert answer.cluster_authorized_operations == on_cluster
    wanted = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    described = client.ask(describe_cluster.API, 1, wanted)
    assert described.cluster_authorized_operations == on_cluster
    permit([rule(Operation.READ, name=topic), rule(Operation.CREATE, CLUSTER)])
    described = client.ask(describe_cluster.API, 1, wanted)
    assert (described.cluster_authorized_operations, described.error_code) == (0, ErrorCode.none)
    permit(EVERYTHING)
    answer = client.ask(metadata.API, 10, request)
    assert answer.topics[0].topic_authorized_operations == bits(OPERATIONS_ON[TOPIC])
    assert answer.cluster_authorized_operations == bits(OPERATIONS_ON[CLUSTER])


def test_one_topic_of_a_request_is_refused_and_the_others_are_served(
    client: RawClient, topic: str, permit: Callable[[Rules], None]
) -> None:
    (other,) = client.create(f"other{uuid.uuid4().hex[:8]}").topics
    permit([rule(Operation.WRITE, name=topic)])
    data = tuple(
        produce.TopicProduceData(
            name=name,
            partition_data=(produce.PartitionProduceData(index=0, records=memoryview(batch(1))),),
        )
        for name in (topic, other.name)
    )
    request = produce.ProduceRequest(acks=-1, timeout=20_000, topic_data=data)
    answers = {
        each.name: each.partition_responses[0].error_code
        for each in client.ask(produce.API, 9, request).responses
    }
    assert answers == {topic: ErrorCode.none, other.name: ErrorCode.topic_authorization_failed}


def test_a_right_that_is_taken_away_ends_a_wait(
    client: RawClient, running: RunningBroker, topic: str, permit: Callable[[Rules], None]
) -> None:
    permit([rule(Operation.READ), rule(Operation.WRITE)])
    partition = fetch.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1_000_000)
    waiting = fetch.FetchRequest(
        max_wait=20_000,
        min_bytes=1,
        max_bytes=1_000_000,
        topics=(fetch.FetchTopic(topic=topic, partitions=(partition,)),),
    )
    client.begin(fetch.API, 12, waiting)
    with running.client() as other:
        # The broker has looked at the first request when it answers one that came after it.
        assert not codes(ask_fetch(other, topic)) & REFUSALS
        permit([rule(Operation.WRITE)])
        assert other.produce(topic, batch(2)).error_code is ErrorCode.none
    answer = client.finish(fetch.API, 12)
    assert codes(answer) & REFUSALS
    (data,) = answer.responses[0].partitions
    assert not data.records


def test_what_was_created_is_told_to_who_may_read_its_configs(
    client: RawClient, topic: str, permit: Callable[[Rules], None]
) -> None:
    permit([rule(Operation.CREATE)])
    (result,) = client.create(f"t{uuid.uuid4().hex[:10]}").topics
    assert result.error_code is ErrorCode.none
    assert result.topic_config_error_code == ErrorCode.topic_authorization_failed
    assert (result.num_partitions, result.configs or ()) == (-1, ())


def test_log_directories_are_not_told_in_old_versions(
    client: RawClient, permit: Callable[[Rules], None]
) -> None:
    permit([])
    request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
    assert client.ask(describe_log_dirs.API, 1, request).results == ()


def test_a_change_is_in_force_within_a_second(
    client: RawClient, running: RunningBroker, topic: str, permit: Callable[[Rules], None]
) -> None:
    permit([])
    for act, expected in (
        (acls.add, ErrorCode.none),
        (acls.remove, ErrorCode.topic_authorization_failed),
    ):
        pattern, acl = rule(Operation.WRITE, name=topic)
        act(running.broker.session, pattern, [acl])
        deadline = time.monotonic() + 1.0
        while (found := client.produce(topic, batch(1)).error_code) is not expected:
            assert time.monotonic() < deadline, found
