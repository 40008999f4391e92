"""CreateAcls, DescribeAcls and DeleteAcls: in every version, and by librdkafka's admin
client, against a running broker."""

import itertools
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)
from confluent_kafka.admin import ResourceType as Kind

from broker.configs.config import AuthorizationConfig
from tests.broker.api.requests import acl, add_acls, find_acls, remove_acls, unused
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.acls import Operation, PatternType, Permission, ResourceType
from wire.errors import ErrorCode
from wire.messages import create_acls
from wire.messages.create_acls import AclCreationResult
from wire.messages.delete_acls import DeleteAclsFilterResult


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig(super_users=("ANONYMOUS",))}


@pytest.fixture
def name() -> str:
    return unused()


@pytest.mark.parametrize("version", create_acls.API.versions)
def test_the_life_of_an_acl(client: RawClient, name: str, version: int) -> None:
    wanted = acl(name), acl(name, operation=Operation.WRITE)
    for _ in range(2):  # the second time it is there
        assert add_acls(client, *wanted, version=version) == [AclCreationResult()] * 2
    (found,) = find_acls(client, name, version).resources
    assert (found.resource_type, found.resource_name) == (ResourceType.TOPIC, name)
    assert [each.operation for each in found.acls] == [Operation.READ, Operation.WRITE]
    assert {each.principal for each in found.acls} == {"User:alice"}

    gone = remove_acls(client, name, version, operation=Operation.READ)
    assert [each.operation for each in gone.matching_acls] == [Operation.READ]
    (found,) = find_acls(client, name, version).resources
    assert [each.operation for each in found.acls] == [Operation.WRITE]
    assert len(remove_acls(client, name, version).matching_acls) == 1
    assert find_acls(client, name, version).resources == ()
    assert remove_acls(client, name, version) == DeleteAclsFilterResult()


def test_filters_take_patterns_as_kafka_documents(client: RawClient, name: str) -> None:
    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    made = {
        (name, literal), (name[:5], prefixed), (name[:7], prefixed), ("*", literal),
        (name + "x", literal), (name + "x", prefixed),
    }  # fmt: skip
    results = add_acls(
        client, *(acl(each, resource_pattern_type=how) for each, how in sorted(made))
    )
    assert results == [AclCreationResult()] * len(made)

    def taken(asked: str | None, how: PatternType) -> set[tuple[str, int]]:
        found = find_acls(client, asked, pattern_type_filter=how, principal_filter="User:alice")
        return {(each.resource_name, each.pattern_type) for each in found.resources}

    try:
        assert taken(name, literal) == {(name, literal)}
        assert taken(name, prefixed) == set()
        assert taken(name + "x", PatternType.ANY) == {(name + "x", literal), (name + "x", prefixed)}
        assert taken(name, PatternType.MATCH) == {
            (name, literal), (name[:5], prefixed), (name[:7], prefixed), ("*", literal),
        }  # fmt: skip
        assert taken("*", literal) == {("*", literal)}
        assert taken(None, PatternType.ANY) == made
        assert taken(None, prefixed) == {each for each in made if each[1] is prefixed}
    finally:
        remove_acls(client, None)
    assert taken(None, PatternType.ANY) == set()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"resource_type": ResourceType.CLUSTER}, "kafka-cluster"),
        ({"resource_type": ResourceType.ANY}, "resource type 1"),
        ({"resource_type": 99}, "resource type 99"),
        ({"resource_name": ""}, "empty resource name"),
        ({"resource_name": "x" * 600}, "512"),
        ({"resource_pattern_type": PatternType.MATCH}, "pattern type 2"),
        ({"principal": "alice"}, "User:name"),
        ({"principal": "User:"}, "User:name"),
        ({"host": ""}, "empty host"),
        ({"operation": Operation.ANY}, "operation 1"),
        ({"operation": 0}, "operation 0"),
        ({"permission_type": Permission.ANY}, "permission 1"),
    ],
)
def test_what_cannot_be_made_is_refused_and_spoils_nothing_else(
    client: RawClient, name: str, other: dict[str, Any], said: str
) -> None:
    refused, made = add_acls(client, acl(name, **other), acl(name))
    assert refused.error_code is ErrorCode.invalid_request
    assert said in (refused.error_message or "")
    assert made == AclCreationResult()
    remove_acls(client, name)


def test_filters_that_mean_nothing_are_refused(client: RawClient) -> None:
    for other in ({"operation": 99}, {"pattern_type_filter": 0}, {"resource_type_filter": -1}):
        assert find_acls(client, None, **other).error_code is ErrorCode.invalid_request
        assert remove_acls(client, None, **other).error_code is ErrorCode.invalid_request


def test_a_request_of_very_many_filters_is_refused(client: RawClient, name: str) -> None:
    add_acls(client, acl(name))
    assert remove_acls(client, name, times=101).error_code is ErrorCode.invalid_request
    assert len(find_acls(client, name).resources) == 1
    remove_acls(client, name)


@pytest.mark.parametrize("odd", ["../../brokers", "a/b", ".", "..", "%2F", "ü*?", "a\nb", "\x00"])
def test_any_name_of_a_group_is_a_name(client: RawClient, odd: str) -> None:
    group = {"resource_type": ResourceType.GROUP}
    assert add_acls(client, acl(odd, **group)) == [AclCreationResult()]
    (found,) = find_acls(client, odd, resource_type_filter=ResourceType.GROUP).resources
    assert found.resource_name == odd
    assert len(remove_acls(client, odd, resource_type_filter=ResourceType.GROUP).matching_acls) == 1


# Foreign clients


@pytest.fixture
def librdkafka(running: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{running.port}"})


def binding(name: str, how: ResourcePatternType, operation: AclOperation) -> AclBinding:
    return AclBinding(
        Kind.TOPIC, name, how, "User:bob", "10.0.0.1", operation, AclPermissionType.DENY
    )


def test_librdkafka_creates_describes_and_deletes(librdkafka: AdminClient, name: str) -> None:
    made = [
        binding(name, how, operation)
        for how, operation in itertools.product(
            (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED),
            (AclOperation.WRITE, AclOperation.ALTER_CONFIGS),
        )
    ]
    for created in librdkafka.create_acls(made, request_timeout=20).values():
        assert created.result() is None
    everything = AclBindingFilter(
        Kind.TOPIC, name, ResourcePatternType.MATCH, None, None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    found = librdkafka.describe_acls(everything, request_timeout=20).result()
    assert set(found) == set(made)
    (deleted,) = librdkafka.delete_acls([everything], request_timeout=20).values()
    assert set(deleted.result()) == set(made)
    assert librdkafka.describe_acls(everything, request_timeout=20).result() == []


def test_librdkafka_is_told_what_is_wrong(librdkafka: AdminClient) -> None:
    wrong = AclBinding(
        Kind.BROKER, "not-the-cluster", ResourcePatternType.LITERAL, "User:bob", "*",
        AclOperation.ALTER, AclPermissionType.ALLOW,
    )  # fmt: skip
    (refused,) = librdkafka.create_acls([wrong], request_timeout=20).values()
    with pytest.raises(KafkaException, match="kafka-cluster"):
        refused.result()
