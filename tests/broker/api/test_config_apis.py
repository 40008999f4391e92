"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs against a running broker."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.codec import Api
from wire.errors import ErrorCode
from wire.messages import alter_configs, describe_configs, incremental_alter_configs
from wire.messages.alter_configs import AlterConfigsRequest
from wire.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    ResourceType,
)
from wire.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)

NewTopic = Callable[..., str]
SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND
APIS: list[tuple[Api[Any, Any], int]] = [
    (api, version)
    for api in (alter_configs.API, incremental_alter_configs.API)
    for version in api.versions
]


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"topic_defaults": {"retention.ms": 1_000_000}}


def describe(
    client: RawClient, kind: int, name: str, *keys: str, version: int = 4, **flags: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    request = DescribeConfigsRequest(resources=(resource,), **flags)
    (result,) = client.ask(describe_configs.API, version, request).results
    return result


def value(client: RawClient, topic: str, key: str) -> tuple[str | None, int]:
    (entry,) = describe(client, ResourceType.TOPIC, topic, key).configs
    return entry.value, entry.config_source


def replace(
    client: RawClient,
    name: str,
    *,
    kind: int = ResourceType.TOPIC,
    validate_only: bool = False,
    **configs: str | None,
) -> ErrorCode:
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            alter_configs.AlterableConfig(name=key.replace("_", "."), value=text)
            for key, text in configs.items()
        ),
    )
    request = AlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    (result,) = client.ask(alter_configs.API, 2, request).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result.error_code


def change(
    client: RawClient,
    name: str,
    *steps: tuple[str, int, str | None],
    kind: int = ResourceType.TOPIC,
    validate_only: bool = False,
) -> ErrorCode:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            incremental_alter_configs.AlterableConfig(
                name=key, config_operation=operation, value=text
            )
            for key, operation, text in steps
        ),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    (result,) = client.ask(incremental_alter_configs.API, 1, request).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result.error_code


@pytest.mark.parametrize("version", describe_configs.API.versions)
def test_configs_of_a_topic(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic(configs={"segment.bytes": "1000000"})
    result = describe(
        client,
        ResourceType.TOPIC,
        name,
        version=version,
        include_synonyms=True,
        include_documentation=True,
    )
    assert result.error_code is ErrorCode.none
    assert (result.resource_type, result.resource_name) == (ResourceType.TOPIC, name)
    entries = {entry.name: entry for entry in result.configs}
    segment, retention = entries["segment.bytes"], entries["retention.ms"]
    assert (segment.value, segment.config_source) == ("1000000", ConfigSource.TOPIC_CONFIG)
    assert retention.value == "1000000"
    assert retention.config_source == ConfigSource.STATIC_BROKER_CONFIG
    assert [each.name for each in segment.synonyms] == ["segment.bytes", "log.segment.bytes"]
    if version >= 3:
        assert segment.config_type == ConfigType.INT
        assert "time of append" in (retention.documentation or "")


def test_what_is_not_asked_for_is_not_told(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    result = describe(client, ResourceType.TOPIC, name, "retention.ms", "no.such.key")
    (entry,) = result.configs
    assert (entry.name, entry.synonyms, entry.documentation) == ("retention.ms", (), None)


def test_configs_of_the_broker(client: RawClient, running: RunningBroker) -> None:
    entries = {entry.name: entry for entry in describe(client, ResourceType.BROKER, "1").configs}
    assert entries["inter.broker.protocol.version"].value == "3.2-IV0"
    assert entries["listeners"].value == f"PLAINTEXT://127.0.0.1:{running.port}"
    assert entries["advertised.listeners"].value == f"PLAINTEXT://127.0.0.1:{running.port}"
    assert entries["log.retention.ms"].value == "1000000"
    assert describe(client, ResourceType.BROKER, "").configs == ()


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "never-created", ErrorCode.unknown_topic_or_partition),
        (ResourceType.TOPIC, "../x", ErrorCode.invalid_topic_exception),
        (ResourceType.BROKER, "2", ErrorCode.invalid_request),
        (ResourceType.BROKER, "one", ErrorCode.invalid_request),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.invalid_request),
        (0, "x", ErrorCode.invalid_request),
        (-7, "x", ErrorCode.invalid_request),
    ],
)
def test_what_has_no_configs(client: RawClient, kind: int, name: str, code: ErrorCode) -> None:
    result = describe(client, kind, name)
    assert result.error_code is code
    assert result.error_message
    assert result.configs == ()


def test_a_resource_twice_is_told_once(client: RawClient) -> None:
    resource = DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name="1")
    request = DescribeConfigsRequest(resources=(resource,) * 3)
    first, *others = client.ask(describe_configs.API, 4, request).results
    assert first.error_code is ErrorCode.none
    assert {each.error_code for each in others} == {ErrorCode.invalid_request}


def test_configs_are_replaced(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic(configs={"segment.bytes": "1000000", "flush.ms": "5"})
    assert replace(client, name, flush_ms="7") is ErrorCode.none
    assert value(client, name, "flush.ms") == ("7", ConfigSource.TOPIC_CONFIG)
    assert value(client, name, "segment.bytes") == ("1073741824", ConfigSource.DEFAULT_CONFIG)


def test_single_configs_are_changed(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic(configs={"segment.bytes": "1000000", "flush.ms": "5"})
    steps = (
        ("flush.ms", DELETE, None),
        ("retention.ms", SET, "9"),
        ("cleanup.policy", APPEND, "compact"),
    )
    assert change(client, name, *steps) is ErrorCode.none
    assert value(client, name, "segment.bytes") == ("1000000", ConfigSource.TOPIC_CONFIG)
    assert value(client, name, "flush.ms") == ("100", ConfigSource.DEFAULT_CONFIG)
    assert value(client, name, "retention.ms") == ("9", ConfigSource.TOPIC_CONFIG)
    assert value(client, name, "cleanup.policy") == (
        "delete,compact",
        ConfigSource.TOPIC_CONFIG,
    )


def test_a_change_takes_effect(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    large = batch(*range(100))
    assert client.produce(name, large).error_code is ErrorCode.none
    assert change(client, name, ("max.message.bytes", SET, "200")) is ErrorCode.none
    assert client.produce(name, large).error_code is ErrorCode.message_too_large
    assert change(client, name, ("max.message.bytes", DELETE, None)) is ErrorCode.none
    assert client.produce(name, large).error_code is ErrorCode.none


def test_validation_changes_nothing(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    before = value(client, name, "flush.ms")
    assert replace(client, name, validate_only=True, flush_ms="7") is ErrorCode.none
    steps = (("flush.ms", SET, "7"),)
    assert change(client, name, *steps, validate_only=True) is ErrorCode.none
    bad = (("flush.ms", SET, "soon"),)
    assert change(client, name, *bad, validate_only=True) is ErrorCode.invalid_config
    assert value(client, name, "flush.ms") == before


def test_one_bad_config_spoils_all_of_its_resource(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    assert replace(client, name, flush_ms="7", segment_bytes="?") is ErrorCode.invalid_config
    steps = (("flush.ms", SET, "7"), ("no.such", SET, "1"))
    assert change(client, name, *steps) is ErrorCode.invalid_config
    assert value(client, name, "flush.ms") == ("100", ConfigSource.DEFAULT_CONFIG)


def test_alterations_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    unknown = ErrorCode.unknown_topic_or_partition
    assert replace(client, "never-created", flush_ms="7") is unknown
    assert change(client, "never-created", ("flush.ms", SET, "7")) is unknown
    for code in (
        replace(client, name, flush_ms=None),
        replace(client, "1", kind=ResourceType.BROKER, flush_ms="7"),
        replace(client, "1", kind=99, flush_ms="7"),
        change(client, name, ("flush.ms", SET, None)),
        change(client, name, ("flush.ms", APPEND, "7")),
        change(client, name, ("flush.ms", 9, "7")),
        change(client, name, ("flush.ms", SET, "7"), ("flush.ms", SET, "8")),
        change(client, "1", ("flush.ms", SET, "7"), kind=ResourceType.BROKER),
    ):
        assert code is ErrorCode.invalid_request


RATE = "follower.replication.throttled.rate"


def rate_of(client: RawClient, name: str) -> tuple[str | None, int]:
    found = describe(client, ResourceType.BROKER, name, RATE).configs
    return (found[0].value, found[0].config_source) if found else (None, ConfigSource.UNKNOWN)


def test_the_rate_of_a_broker(client: RawClient, running: RunningBroker) -> None:
    """As Kafka's tools set it and take it away again."""
    broker = running.broker
    throttle = broker._replication.copies_throttled
    nothing = (str(2**63 - 1), ConfigSource.DEFAULT_CONFIG)

    def alter(name: str, operation: int, value: str | None = None) -> ErrorCode:
        return change(client, name, (RATE, operation, value), kind=ResourceType.BROKER)

    assert rate_of(client, "1") == nothing
    assert alter("1", SET, "1000") is ErrorCode.none
    assert rate_of(client, "1") == ("1000", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert throttle.portion(2**30) == 16 * 1024
    assert alter("", SET, "800000") is ErrorCode.none
    assert rate_of(client, "") == ("800000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert alter("1", DELETE) is ErrorCode.none
    assert rate_of(client, "1") == ("800000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert throttle.portion(2**30) == 200_000
    assert replace(client, "", kind=ResourceType.BROKER) is ErrorCode.none
    assert rate_of(client, "1") == nothing
    assert throttle.portion(2**30) == 2**30
    unknown = "replica.alter.log.dirs.io.max.bytes.per.second"  # Kafka's tools delete that, too
    assert change(client, "1", (unknown, DELETE, None), kind=ResourceType.BROKER) is ErrorCode.none


def test_rates_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    def alter(name: str, value: str) -> ErrorCode:
        return change(client, name, (RATE, SET, value), kind=ResourceType.BROKER)

    for value in ("0", "-1", "much", ""):
        assert alter("1", value) is ErrorCode.invalid_config
    for name in ("2", "one", "-1", "99999999999"):
        assert alter(name, "1000") is ErrorCode.invalid_request
    bad, good = (RATE, SET, "?"), (RATE, SET, "1000")
    broker = ResourceType.BROKER
    assert change(client, "1", bad, kind=broker, validate_only=True) is ErrorCode.invalid_config
    assert change(client, "1", good, kind=broker, validate_only=True) is ErrorCode.none
    assert rate_of(client, "1")[1] == ConfigSource.DEFAULT_CONFIG

    topic = new_topic()
    key = "leader.replication.throttled.replicas"
    for text in ("*", "0:1,1:2", ""):
        assert change(client, topic, (key, SET, text)) is ErrorCode.none
    for text in ("0", "0:1,*", "0:one"):
        assert change(client, topic, (key, SET, text)) is ErrorCode.invalid_config


@pytest.mark.parametrize(("api", "version"), APIS)
def test_every_version(
    client: RawClient, new_topic: NewTopic, api: Api[Any, Any], version: int
) -> None:
    name = new_topic()
    if api is alter_configs.API:
        entry: Any = alter_configs.AlterableConfig(name="flush.ms", value="3")
        resource: Any = alter_configs.AlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=name, configs=(entry,)
        )
        request: Any = AlterConfigsRequest(resources=(resource,))
    else:
        entry = incremental_alter_configs.AlterableConfig(
            name="flush.ms", config_operation=SET, value="3"
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=name, configs=(entry,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,))
    (result,) = client.ask(api, version, request).responses
    assert result.error_code is ErrorCode.none
    assert value(client, name, "flush.ms") == ("3", ConfigSource.TOPIC_CONFIG)
