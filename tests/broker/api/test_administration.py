"""What is remembered of administration: a line for each thing that was changed, or refused."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.changes import REMEMBERED
from broker.api.operations import RULES, Rule
from broker.config import AuthorizationConfig
from ground.administration import OK, Entry, Kind
from ground.scram import ScramMechanism
from tests.broker.api.questions import QUESTIONS, Ask, ask_metadata
from tests.broker.api.remembered import RememberedChanges
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.acls import Operation, PatternType, Permission, ResourceType
from wire.errors import ErrorCode
from wire.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    incremental_alter_configs,
)
from wire.messages.describe_client_quotas import EntityData

CHANGES_SOMETHING = {
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
}
BY_ASKING = "topics that are created by asking"
ROWS = [
    pytest.param(key, each, question, id=f"{key}-{each.operation.words}-{each.kind.words}")
    for key, rules in RULES.items()
    for each, question in zip(
        (each for each in rules if each.kind is not ResourceType.TRANSACTIONAL_ID),
        QUESTIONS.get(key, ()),
        strict=True,
    )
    if each.operation in CHANGES_SOMETHING and each.needed_for != BY_ASKING
]


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig(), "cluster": "a-cluster"}


@pytest.fixture
def remembered(running: RunningBroker) -> RememberedChanges:
    return RememberedChanges(running.broker.config.data_dir)


@pytest.fixture
def topic(client: RawClient, permit: Callable[[Rules], None]) -> str:
    permit(EVERYTHING)
    name = f"t{uuid.uuid4().hex[:10]}"
    (result,) = client.create(name).topics
    assert result.error_code is ErrorCode.none, result.error_message
    return name


def test_every_api_that_changes_something_leaves_entries() -> None:
    assert {each.values[0] for each in ROWS} == REMEMBERED.keys(), (
        "an administrative API without a row in broker.api.changes"
    )


def _is_of(key: int, needed: Rule, topic: str) -> Callable[[Entry], bool]:
    row = REMEMBERED[key]
    of_broker = row.kind is Kind.TOPIC_CONFIG and needed.kind is ResourceType.CLUSTER
    kind = Kind.BROKER_CONFIG if of_broker else row.kind

    def is_it(entry: Entry) -> bool:
        if entry.kind != kind or (kind is Kind.TOPIC and entry.action != row.action):
            return False
        return not (entry.name == topic and entry.action == "create")  # made for the test

    return is_it


@pytest.mark.parametrize(("key", "needed", "ask"), ROWS)
def test_what_was_refused_stands_there_with_who_asked(
    *,
    client: RawClient,
    topic: str,
    permit: Callable[[Rules], None],
    remembered: RememberedChanges,
    key: int,
    needed: Rule,
    ask: Ask,
) -> None:
    denied = [
        rule(operation, kind, permission=Permission.DENY) for operation, kind in needed.rights
    ]
    permit([*EVERYTHING, *denied])
    ask(client, topic)
    entry = remembered.one(_is_of(key, needed, topic))
    assert entry.result.endswith("_AUTHORIZATION_FAILED")
    assert (entry.principal, entry.address) == ("ANONYMOUS", "127.0.0.1")
    assert (entry.listener, entry.client_id) == ("PLAINTEXT", "test")
    assert (entry.program, entry.cluster) == ("broker 1", "a-cluster")


@pytest.mark.parametrize(("key", "needed", "ask"), ROWS)
def test_what_was_done_stands_there_with_who_did_it(
    *,
    client: RawClient,
    topic: str,
    remembered: RememberedChanges,
    key: int,
    needed: Rule,
    ask: Ask,
) -> None:
    ask(client, topic)
    entry = remembered.one(_is_of(key, needed, topic))
    assert not entry.result.endswith("_AUTHORIZATION_FAILED")
    assert (entry.principal, entry.address) == ("ANONYMOUS", "127.0.0.1")


def test_the_life_of_a_topic(remembered: RememberedChanges, client: RawClient, topic: str) -> None:
    def last(action: str, kind: Kind = Kind.TOPIC) -> Entry:
        return remembered.one(
            lambda each: (each.action, each.kind, each.name) == (action, kind, topic)
        )

    assert last("create").after == {"partitions": "1"}
    more = create_partitions.CreatePartitionsTopic(name=topic, count=3)
    client.ask(
        create_partitions.API,
        3,
        create_partitions.CreatePartitionsRequest(topics=(more,), timeout=20_000),
    )
    extended = last("extend")
    assert (extended.before, extended.after) == ({"partitions": "1"}, {"partitions": "3"})

    for times, value in enumerate(("1000000", "2000000"), 1):
        _set_config(client, topic, "retention.ms", value)
        altered = _when(remembered, topic, Kind.TOPIC_CONFIG, times)[-1]
        assert altered.after == {"retention.ms": value}
    assert altered.before == {"retention.ms": "1000000"}

    client.produce(topic, batch(1, 2, 3))
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=2)
    request = delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name=topic, partitions=(partition,)),),
        timeout=20_000,
    )
    client.ask(delete_records.API, 2, request)
    deleted = last("delete", Kind.RECORDS)
    assert (deleted.before, deleted.after) == ({"start of 0": "0"}, {"start of 0": "2"})

    state = delete_topics.DeleteTopicState(name=topic)
    client.ask(
        delete_topics.API, 6, delete_topics.DeleteTopicsRequest(topics=(state,), timeout=20_000)
    )
    gone = last("delete")
    assert (gone.result, gone.before) == (OK, {"partitions": "3"})


def _set_config(client: RawClient, topic: str, name: str, value: str) -> None:
    config = incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=2, resource_name=topic, configs=(config,)
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))
    (result,) = client.ask(incremental_alter_configs.API, 1, request).responses
    assert result.error_code is ErrorCode.none, result.error_message


def _when(remembered: RememberedChanges, topic: str, kind: Kind, count: int) -> list[Entry]:
    """The entries about a topic, when there are so many."""
    deadline = time.monotonic() + 30
    while True:
        found = [each for each in remembered.since() if (each.kind, each.name) == (kind, topic)]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_topic_that_is_created_by_asking(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = f"t{uuid.uuid4().hex[:10]}"
    for _ in range(2):
        ask_metadata(client, name, create=True)
    entry = remembered.one(lambda each: each.name == name)
    assert (entry.action, entry.result, entry.after) == ("create", OK, {"partitions": "1"})


def test_users_without_their_passwords(
    client: RawClient,
    running: RunningBroker,
    permit: Callable[[Rules], None],
    remembered: RememberedChanges,
) -> None:
    permit(EVERYTHING)
    name = f"u{uuid.uuid4().hex[:10]}"
    secret = b"salted-password-that-nobody-must".ljust(64, b"!")
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
        name=name, mechanism=2, iterations=4096, salt=b"a-salt", salted_password=secret
    )
    deletion = alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=2)
    for request in ({"upsertions": (upsertion,)}, {"deletions": (deletion,)}):
        client.ask(
            alter_user_scram_credentials.API,
            0,
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(**request),
        )
    sha = str(ScramMechanism.SHA_512)
    made = remembered.one(lambda each: (each.name, each.action) == (name, "create"))
    assert made.after == {sha: "another password, 4096 iterations"}
    gone = remembered.one(lambda each: (each.name, each.action) == (name, "delete"))
    assert (gone.before, gone.after) == ({sha: "4096 iterations"}, {})
    assert "salted-password" not in str(remembered.since())


def test_acls_and_quotas(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = f"n{uuid.uuid4().hex[:10]}"
    creation = create_acls.AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.PREFIXED,
        principal="User:alice",
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )
    client.ask(create_acls.API, 3, create_acls.CreateAclsRequest(creations=(creation,)))
    filter_ = delete_acls.DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=name,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    client.ask(delete_acls.API, 3, delete_acls.DeleteAclsRequest(filters=(filter_,)))
    added = remembered.one(lambda each: (each.name, each.action) == (f"topic:{name}", "create"))
    removed = remembered.one(lambda each: (each.name, each.action) == (f"topic:{name}", "delete"))
    assert added.after == removed.before
    assert added.after["principal"] == "User:alice"
    assert (added.after["operation"], added.after["pattern"]) == ("Read", "Prefixed")

    entity = (EntityData(entity_type="user", entity_name=name),)
    for rate in (100.0, 200.0):
        op = alter_client_quotas.OpData(key="producer_byte_rate", value=rate, remove=False)
        entry = alter_client_quotas.EntryData(entity=entity, ops=(op,))
        client.ask(
            alter_client_quotas.API,
            1,
            alter_client_quotas.AlterClientQuotasRequest(entries=(entry,)),
        )
    last = remembered.one(
        lambda each: each.name == f"user={name}" and each.after == {"producer_byte_rate": "200"}
    )
    assert last.before == {"producer_byte_rate": "100"}


def test_names_from_outside_are_bounded_and_stay_in_their_place(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = '"},\n{"principal":"somebody else"\u2028' + "x" * 5_000
    (result,) = client.create(name).topics
    assert result.error_code is ErrorCode.invalid_topic_exception
    entry = remembered.one(lambda each: each.name.startswith(name[:30]))
    assert entry.principal == "ANONYMOUS"
    assert len(entry.name) < 600


def test_what_only_asks_whether_it_would_be_done_leaves_nothing(
    client: RawClient, topic: str, remembered: RememberedChanges
) -> None:
    name = f"t{uuid.uuid4().hex[:10]}"
    wanted = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = create_topics.CreateTopicsRequest(
        topics=(wanted,), timeout=20_000, validate_only=True
    )
    (result,) = client.ask(create_topics.API, 7, request).topics
    assert result.error_code is ErrorCode.none
    client.create(f"{name}-then")
    remembered.one(lambda each: each.name == f"{name}-then")
    assert not [each for each in remembered.since() if each.name == name]
