"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs against a running broker."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.api.fetching import fetched, whole
from tests.broker.api.requests import (
    OF_BROKER,
    OF_TOPIC,
    SET,
    change_configs,
    describe_config,
    replace_configs,
)
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.errors import ErrorCode
from wire.messages import alter_configs, describe_configs
from wire.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from wire.messages.incremental_alter_configs import ConfigOperation

NewTopic = Callable[..., str]
DELETE, APPEND = ConfigOperation.DELETE, ConfigOperation.APPEND


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"topic_defaults": {"retention.ms": 1_000_000}}


def value(client: RawClient, topic: str, key: str) -> tuple[str | None, int]:
    (entry,) = describe_config(client, OF_TOPIC, topic, key).configs
    return entry.value, entry.config_source


@pytest.mark.parametrize("version", describe_configs.API.versions)
def test_configs_of_a_topic(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic(configs={"segment.bytes": "1000000"})
    flags = {"include_synonyms": True, "include_documentation": True}
    result = describe_config(client, OF_TOPIC, name, version=version, **flags)
    assert result.error_code is ErrorCode.none
    assert (result.resource_type, result.resource_name) == (OF_TOPIC, name)
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
    result = describe_config(client, OF_TOPIC, name, "retention.ms", "no.such.key")
    (entry,) = result.configs
    assert (entry.name, entry.synonyms, entry.documentation) == ("retention.ms", (), None)


def test_configs_of_the_broker(client: RawClient, running: RunningBroker) -> None:
    entries = {entry.name: entry for entry in describe_config(client, OF_BROKER, "1").configs}
    assert entries["inter.broker.protocol.version"].value == "3.2-IV0"
    assert entries["listeners"].value == f"PLAINTEXT://127.0.0.1:{running.port}"
    assert entries["advertised.listeners"].value == f"PLAINTEXT://127.0.0.1:{running.port}"
    assert entries["log.retention.ms"].value == "1000000"
    assert describe_config(client, OF_BROKER, "").configs == ()


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (OF_TOPIC, "never-created", ErrorCode.unknown_topic_or_partition),
        (OF_TOPIC, "../x", ErrorCode.invalid_topic_exception),
        (OF_BROKER, "2", ErrorCode.invalid_request),
        (OF_BROKER, "one", ErrorCode.invalid_request),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.invalid_request),
        (0, "x", ErrorCode.invalid_request),
        (-7, "x", ErrorCode.invalid_request),
    ],
)
def test_what_has_no_configs(client: RawClient, kind: int, name: str, code: ErrorCode) -> None:
    result = describe_config(client, kind, name)
    assert result.error_code is code
    assert result.error_message
    assert result.configs == ()


def test_a_resource_twice_is_told_once(client: RawClient) -> None:
    resource = DescribeConfigsResource(resource_type=OF_BROKER, resource_name="1")
    request = DescribeConfigsRequest(resources=(resource,) * 3)
    first, *others = client.ask(describe_configs.API, 4, request).results
    assert first.error_code is ErrorCode.none
    assert {each.error_code for each in others} == {ErrorCode.invalid_request}


def test_configs_are_replaced_or_changed_one_by_one(client: RawClient, new_topic: NewTopic) -> None:
    own, default = ConfigSource.TOPIC_CONFIG, ConfigSource.DEFAULT_CONFIG
    name = new_topic(configs={"segment.bytes": "1000000", "flush.ms": "5"})
    steps = (
        ("flush.ms", DELETE, None),
        ("retention.ms", SET, "9"),
        ("cleanup.policy", APPEND, "compact"),
    )
    assert change_configs(client, name, *steps) is ErrorCode.none
    assert value(client, name, "segment.bytes") == ("1000000", own)
    assert value(client, name, "flush.ms") == ("100", default)
    assert value(client, name, "retention.ms") == ("9", own)
    assert value(client, name, "cleanup.policy") == ("delete,compact", own)
    assert replace_configs(client, name, {"flush.ms": "7"}) is ErrorCode.none
    assert value(client, name, "flush.ms") == ("7", own)
    assert value(client, name, "segment.bytes") == ("1073741824", default)


FOREIGN = {
    "compression.type": "gzip",
    "message.format.version": "2.8-IV1",
    "remote.storage.enable": "false",
    "confluent.value.schema.validation": "false",
}


def test_what_changes_nothing_is_kept_and_told(
    client: RawClient, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    own = ConfigSource.TOPIC_CONFIG
    name, altered = new_topic(configs=FOREIGN), new_topic()
    for config, text in FOREIGN.items():
        assert change_configs(client, altered, (config, SET, text)) is ErrorCode.none
    for topic in (name, altered):
        assert {each: value(client, topic, each) for each in FOREIGN} == {
            each: (text, own) for each, text in FOREIGN.items()
        }
        assert f"in Penstock topic={topic} configs={{'compression.type': 'gzip'" in caplog.text
    assert change_configs(client, name, ("retention.ms", SET, "9")) is ErrorCode.none
    assert replace_configs(client, altered, FOREIGN) is ErrorCode.none
    about = describe_config(client, OF_TOPIC, name, "compression.type", include_documentation=True)
    assert "stored and served as the producer sent them" in (about.configs[0].documentation or "")
    sent = batch(1, 2, 3)
    assert client.produce(name, sent).error_code is ErrorCode.none
    assert fetched(client, whole({(name, 0): 0})).records == sent
    assert change_configs(client, name, ("compression.type", DELETE, None)) is ErrorCode.none
    assert value(client, name, "compression.type") == ("producer", ConfigSource.DEFAULT_CONFIG)


def test_a_change_takes_effect(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    large = batch(*range(100))
    assert client.produce(name, large).error_code is ErrorCode.none
    assert change_configs(client, name, ("max.message.bytes", SET, "200")) is ErrorCode.none
    assert client.produce(name, large).error_code is ErrorCode.message_too_large
    assert change_configs(client, name, ("max.message.bytes", DELETE, None)) is ErrorCode.none
    assert client.produce(name, large).error_code is ErrorCode.none


def test_validation_and_one_bad_config_change_nothing(
    client: RawClient, new_topic: NewTopic
) -> None:
    name, good, invalid = new_topic(), ("flush.ms", SET, "7"), ErrorCode.invalid_config
    assert replace_configs(client, name, {"flush.ms": "7"}, validate_only=True) is ErrorCode.none
    assert change_configs(client, name, good, validate_only=True) is ErrorCode.none
    assert change_configs(client, name, ("flush.ms", SET, "soon"), validate_only=True) is invalid
    # It spoils all of its resource.
    assert replace_configs(client, name, {"flush.ms": "7", "segment.bytes": "?"}) is invalid
    assert change_configs(client, name, good, ("no.such", SET, "1")) is invalid
    assert value(client, name, "flush.ms") == ("100", ConfigSource.DEFAULT_CONFIG)


def test_alterations_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    name, seven, step = new_topic(), {"flush.ms": "7"}, ("flush.ms", SET, "7")
    unknown = ErrorCode.unknown_topic_or_partition
    assert replace_configs(client, "never-created", seven) is unknown
    assert change_configs(client, "never-created", step) is unknown
    for code in (
        replace_configs(client, name, {"flush.ms": None}),
        replace_configs(client, "1", seven, kind=OF_BROKER),
        replace_configs(client, "1", seven, kind=99),
        change_configs(client, name, ("flush.ms", SET, None)),
        change_configs(client, name, ("flush.ms", APPEND, "7")),
        change_configs(client, name, ("flush.ms", 9, "7")),
        change_configs(client, name, step, ("flush.ms", SET, "8")),
        change_configs(client, "1", step, kind=OF_BROKER),
    ):
        assert code is ErrorCode.invalid_request


RATE = "follower.replication.throttled.rate"


def rate_of(client: RawClient, name: str) -> tuple[str | None, int]:
    found = describe_config(client, OF_BROKER, name, RATE).configs
    return (found[0].value, found[0].config_source) if found else (None, ConfigSource.UNKNOWN)


def test_the_rate_of_a_broker(client: RawClient, running: RunningBroker) -> None:
    """As Kafka's tools set it and take it away again."""
    broker = running.broker
    throttle = broker._replication.copies_throttled
    nothing = (str(2**63 - 1), ConfigSource.DEFAULT_CONFIG)

    def alter(name: str, operation: int, value: str | None = None) -> ErrorCode:
        return change_configs(client, name, (RATE, operation, value), kind=OF_BROKER)

    assert rate_of(client, "1") == nothing
    assert alter("1", SET, "1000") is ErrorCode.none
    assert rate_of(client, "1") == ("1000", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert throttle.portion(2**30) == 16 * 1024
    assert alter("", SET, "800000") is ErrorCode.none
    assert rate_of(client, "") == ("800000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert alter("1", DELETE) is ErrorCode.none
    assert rate_of(client, "1") == ("800000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert throttle.portion(2**30) == 200_000
    assert replace_configs(client, "", {}, kind=OF_BROKER) is ErrorCode.none
    assert rate_of(client, "1") == nothing
    assert throttle.portion(2**30) == 2**30
    unknown = "replica.alter.log.dirs.io.max.bytes.per.second"  # Kafka's tools delete that, too
    assert change_configs(client, "1", (unknown, DELETE, None), kind=OF_BROKER) is ErrorCode.none


def test_rates_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    def alter(name: str, value: str) -> ErrorCode:
        return change_configs(client, name, (RATE, SET, value), kind=OF_BROKER)

    for value in ("0", "-1", "much", ""):
        assert alter("1", value) is ErrorCode.invalid_config
    for name in ("2", "one", "-1", "99999999999"):
        assert alter(name, "1000") is ErrorCode.invalid_request
    bad, good = (RATE, SET, "?"), (RATE, SET, "1000")
    broker = OF_BROKER
    refused = change_configs(client, "1", bad, kind=broker, validate_only=True)
    assert refused is ErrorCode.invalid_config
    assert change_configs(client, "1", good, kind=broker, validate_only=True) is ErrorCode.none
    assert rate_of(client, "1")[1] == ConfigSource.DEFAULT_CONFIG

    topic = new_topic()
    key = "leader.replication.throttled.replicas"
    for text in ("*", "0:1,1:2", ""):
        assert change_configs(client, topic, (key, SET, text)) is ErrorCode.none
    for text in ("0", "0:1,*", "0:one"):
        assert change_configs(client, topic, (key, SET, text)) is ErrorCode.invalid_config


@pytest.mark.parametrize("version", alter_configs.API.versions)
def test_every_version(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    assert replace_configs(client, name, {"flush.ms": "3"}, version=version) is ErrorCode.none
    assert value(client, name, "flush.ms") == ("3", ConfigSource.TOPIC_CONFIG)
    step = ("flush.ms", SET, "4")
    assert change_configs(client, name, step, version=min(version, 1)) is ErrorCode.none
    assert value(client, name, "flush.ms") == ("4", ConfigSource.TOPIC_CONFIG)
