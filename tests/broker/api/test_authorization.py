"""What each API does with and without the rights that the table of rules names.

Nobody logs in here: rules are for `User:ANONYMOUS`, or for the host that the tests come from, and
they are put into ZooKeeper as another broker would put them there.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from broker.access.acl_evaluation import bits
from broker.api.operations import RULES, Rule
from broker.api.table import TABLE
from broker.configs.config import AuthorizationConfig
from cluster.records import acls
from harness.processes.crowding import Patience
from tests.broker.api.fetching import whole
from tests.broker.api.mirroring import MARK, mirror, source_batch
from tests.broker.api.questions import QUESTIONS, Ask, ask_fetch
from tests.broker.api.requests import codes, delete, described, unused
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.acls import OPERATIONS_ON, Operation, PatternType, Permission, ResourceType
from wire.errors import ErrorCode
from wire.messages import describe_cluster, describe_log_dirs, fetch, metadata, produce
from wire.mirrored import MIRROR_ID, MIRROR_OF

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
WRITE, DENY = Operation.WRITE, Permission.DENY
TOPIC_REFUSED = ErrorCode.topic_authorization_failed
REFUSALS = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
}
Permit = Callable[[Rules], None]


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig(super_users=("User:admin",))}


@pytest.fixture
def topic(client: RawClient, permit: Permit) -> str:
    permit(EVERYTHING)
    name = unused()
    (result,) = client.create(name).topics
    assert result.error_code is ErrorCode.none, result.error_message
    assert client.produce(name, batch(1)).error_code is ErrorCode.none
    return name


@pytest.fixture
def other(client: RawClient, topic: str) -> str:
    """Another topic."""
    (made,) = client.create(unused("other")).topics
    return made.name


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
def test_an_api_serves_with_its_rights_alone(
    client: RawClient, topic: str, permit: Permit, needed: Rule, ask: Ask
) -> None:
    denied = [rule(operation, kind, permission=DENY) for operation, kind in needed.rights]
    permit([*EVERYTHING, *denied])
    assert codes(ask(client, topic)) & REFUSALS, "with all rights but one"
    permit([])
    found = codes(ask(client, topic))
    assert found & REFUSALS, "without any rule"
    # What is there and what is not is answered alike.
    assert codes(ask(client, "no-such-topic")) == found
    for operation, kind in reversed(needed.rights):
        rights = [rule(operation, kind)]
        if needed.needed_for == "topics created on first use":
            rights.append(rule(Operation.DESCRIBE))
        if needed.besides is not None:
            rights.append(rule(*needed.besides))
        permit(rights)
        assert not codes(ask(client, topic)) & REFUSALS, (operation, kind)


def test_a_rule_may_be_for_a_host(client: RawClient, topic: str, permit: Permit) -> None:
    for host, expected in (("127.0.0.1", ErrorCode.none), ("127.0.0.2", TOPIC_REFUSED)):
        permit([rule(WRITE, name=topic, principal="User:*", host=host)])
        assert client.produce(topic, batch(1)).error_code is expected


def test_all_topics_are_those_that_may_be_described(
    client: RawClient, topic: str, other: str, permit: Permit
) -> None:
    permit([rule(WRITE, name="other", pattern_type=PatternType.PREFIXED)])
    everything = metadata.MetadataRequest(topics=None)
    seen = {each.name for each in client.ask(metadata.API, 12, everything).topics}
    assert other in seen
    assert topic not in seen
    hidden = described(client, topic)
    assert (hidden.error_code, hidden.partitions, hidden.topic_id) == (TOPIC_REFUSED, (), None)


def test_by_its_id_a_topics_name_is_not_told(client: RawClient, topic: str, permit: Permit) -> None:
    topic_id = described(client, topic).topic_id
    permit([])
    asked = metadata.MetadataRequestTopic(topic_id=topic_id, name=None)
    request = metadata.MetadataRequest(topics=(asked,), allow_auto_topic_creation=False)
    (hidden,) = client.ask(metadata.API, 12, request).topics
    assert (hidden.error_code, hidden.name) == (TOPIC_REFUSED, None)
    for rules in ([], [rule(WRITE, name=topic)]):
        permit(rules)
        refused = delete(client, None, topic_id=topic_id)
        assert (refused.error_code, refused.name) == (TOPIC_REFUSED, topic if rules else None)


def test_authorized_operations_are_what_is_allowed(
    client: RawClient, topic: str, permit: Permit
) -> None:
    on_cluster = (Operation.DESCRIBE, Operation.CREATE)
    read_and_alter = [rule(Operation.READ, name=topic), rule(Operation.ALTER_CONFIGS)]
    permit([*read_and_alter, *(rule(each, CLUSTER) for each in on_cluster)])
    request = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(name=topic),),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    implied = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    for _ in range(2):  # described, and kept
        answer = client.ask(metadata.API, 10, request)
        assert answer.topics[0].topic_authorized_operations == bits(
            [Operation.READ, Operation.ALTER_CONFIGS, *implied]
        )
        assert answer.cluster_authorized_operations == bits(on_cluster)
    wanted = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    found = client.ask(describe_cluster.API, 1, wanted)
    assert found.cluster_authorized_operations == bits(on_cluster)
    permit([rule(Operation.READ, name=topic), rule(Operation.CREATE, CLUSTER)])
    found = client.ask(describe_cluster.API, 1, wanted)
    assert (found.cluster_authorized_operations, found.error_code) == (0, ErrorCode.none)
    permit(EVERYTHING)
    answer = client.ask(metadata.API, 10, request)
    assert answer.topics[0].topic_authorized_operations == bits(OPERATIONS_ON[TOPIC])
    assert answer.cluster_authorized_operations == bits(OPERATIONS_ON[CLUSTER])


def test_one_topic_of_a_request_is_refused_and_the_others_are_served(
    client: RawClient, topic: str, other: str, permit: Permit
) -> None:
    permit([rule(WRITE, name=topic)])
    data = tuple(
        produce.TopicProduceData(
            name=name,
            partition_data=(produce.PartitionProduceData(index=0, records=memoryview(batch(1))),),
        )
        for name in (topic, other)
    )
    request = produce.ProduceRequest(acks=-1, timeout=20_000, topic_data=data)
    answers = {
        each.name: each.partition_responses[0].error_code
        for each in client.ask(produce.API, 9, request).responses
    }
    assert answers == {topic: ErrorCode.none, other: TOPIC_REFUSED}


def test_who_is_no_broker_opens_no_session_of_a_follower(
    client: RawClient, topic: str, permit: Permit
) -> None:
    """For those, sessions of all clients would have to give way."""

    def session(replica_id: int) -> int:
        request = whole({(topic, 0): 0}, replica_id=replica_id)
        return client.ask(fetch.API, 12, replace(request, session_epoch=0)).session_id

    reads, follows = rule(Operation.READ), rule(Operation.CLUSTER_ACTION, CLUSTER)
    permit([reads])
    assert session(-1)
    assert not session(7)
    permit([follows])
    assert session(7)


def test_a_right_that_is_taken_away_ends_a_wait(
    client: RawClient, running: RunningBroker, topic: str, permit: Permit
) -> None:
    permit([rule(Operation.READ), rule(WRITE)])
    client.begin(fetch.API, 12, whole({(topic, 0): 1}, wait=20_000))
    with running.client() as another:
        # The broker has looked at the first request when it answers one that came after it.
        assert not codes(ask_fetch(another, topic)) & REFUSALS
        permit([rule(WRITE)])
        assert another.produce(topic, batch(2)).error_code is ErrorCode.none
    answer = client.finish(fetch.API, 12)
    assert codes(answer) & REFUSALS
    assert not answer.responses[0].partitions[0].records


def test_what_was_created_is_told_to_who_may_read_its_configs(
    client: RawClient, permit: Permit
) -> None:
    permit([rule(Operation.CREATE)])
    (result,) = client.create(unused()).topics
    assert (result.error_code, result.topic_config_error_code) == (ErrorCode.none, TOPIC_REFUSED)
    assert (result.num_partitions, result.configs or ()) == (-1, ())


def test_log_directories_are_not_told_in_old_versions(client: RawClient, permit: Permit) -> None:
    permit([])
    request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
    assert client.ask(describe_log_dirs.API, 1, request).results == ()


def test_a_change_is_in_force_within_a_second(
    client: RawClient, running: RunningBroker, topic: str, permit: Permit
) -> None:
    permit([])
    for act, expected in ((acls.add, ErrorCode.none), (acls.remove, TOPIC_REFUSED)):
        pattern, acl = rule(WRITE, name=topic)
        act(running.broker.session, pattern, [acl])
        patience = Patience(1.0)
        while (found := client.produce(topic, batch(1)).error_code) is not expected:
            assert not patience.is_over(), found


# The mirror


def test_the_mirror_needs_write_on_its_transactional_id_and_on_the_topic(
    client: RawClient, permit: Permit, new_topic: Callable[..., str]
) -> None:
    permit(EVERYTHING)
    copy, another = (new_topic(configs={MIRROR_OF: MARK}) for _ in range(2))
    id_refused = ErrorCode.transactional_id_authorization_failed
    on_id, on_copy = rule(WRITE, TRANSACTION, MIRROR_ID), rule(WRITE, name=copy)
    for rules, expected in [
        ([], id_refused),
        ([on_copy], id_refused),
        ([on_copy, rule(WRITE, TRANSACTION, "other")], id_refused),
        ([on_id], TOPIC_REFUSED),
        ([on_id, on_copy], ErrorCode.none),
        ([*EVERYTHING, rule(WRITE, TRANSACTION, MIRROR_ID, permission=DENY)], id_refused),
    ]:
        permit(rules)
        answer = mirror(client, copy, source_batch(0))
        assert answer.error_code is expected, rules
        if expected is ErrorCode.none:
            assert mirror(client, another, source_batch(0)).error_code is TOPIC_REFUSED
        else:
            assert "not authorized: Write on" in (answer.error_message or "")


def test_with_its_rights_alone_the_mirror_may_write_to_no_other_topic(
    client: RawClient, topic: str, permit: Permit
) -> None:
    permit([rule(WRITE, TRANSACTION, MIRROR_ID), rule(WRITE, name="*")])
    answer = mirror(client, topic, source_batch(0))
    assert answer.error_code is ErrorCode.policy_violation
