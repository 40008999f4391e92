"""What a broker says of configs: values, and where each comes from."""

from collections.abc import Mapping

from broker.configs.config import BrokerConfig
from broker.configs.config_entries import broker_entries, shared_entries, topic_entries, without
from broker.configs.dynamic_configs import DYNAMIC_KEYS, FOLLOWER_RATE, LEADER_RATE, rate
from broker.configs.topic_config import NOTHING, TopicConfig, TopicDefaults
from broker.configs.topic_config_table import TOPIC_CONFIG_KEYS
from cluster.values import ClusterSnapshot
from wire.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

DEFAULTS = TopicDefaults.from_settings({"partitions": 8, "retention.ms": 1000})


def of_topic(**overrides: str) -> dict[str, DescribeConfigsResourceResult]:
    texts = {name.replace("_", "."): text for name, text in overrides.items()}
    config = TopicConfig.parse(texts, DEFAULTS.configs)
    return {entry.name: entry for entry in topic_entries(config, DEFAULTS, 1)}


def of_broker(
    own: Mapping[str, str] = NOTHING, shared: Mapping[str, str] = NOTHING
) -> dict[str, DescribeConfigsResourceResult]:
    config = BrokerConfig(id=7, data_dir="/data", zookeeper="zk:2181")
    entries = broker_entries(
        config, DEFAULTS, own, shared, listener="PLAINTEXT://a:1", advertised="PLAINTEXT://b:2"
    )
    assert len({entry.name for entry in entries}) == len(entries)
    return {entry.name: entry for entry in entries}


def test_a_topic_tells_all_configs() -> None:
    assert of_topic().keys() == TOPIC_CONFIG_KEYS.keys()
    assert not any(entry.read_only for entry in of_topic().values())


def test_where_a_topics_values_come_from() -> None:
    plain, set_ = of_topic(), of_topic(retention_ms="5", segment_bytes="100")
    retention = DescribeConfigsSynonym(
        name="log.retention.ms", value="1000", source=ConfigSource.STATIC_BROKER_CONFIG
    )
    built_in = DescribeConfigsSynonym(
        name="log.retention.ms", value="604800000", source=ConfigSource.DEFAULT_CONFIG
    )
    own = DescribeConfigsSynonym(name="retention.ms", value="5", source=ConfigSource.TOPIC_CONFIG)

    assert plain["segment.bytes"].config_source == ConfigSource.DEFAULT_CONFIG
    assert plain["retention.ms"].value == "1000"
    assert plain["retention.ms"].config_source == ConfigSource.STATIC_BROKER_CONFIG
    assert plain["retention.ms"].synonyms == (retention, built_in)
    assert set_["retention.ms"].value == "5"
    assert set_["retention.ms"].config_source == ConfigSource.TOPIC_CONFIG
    assert set_["retention.ms"].synonyms == (own, retention, built_in)
    assert set_["segment.bytes"].config_source == ConfigSource.TOPIC_CONFIG
    assert plain["leader.replication.throttled.replicas"].synonyms == ()


def test_how_many_must_be_in_sync_depends_on_how_many_there_are() -> None:
    for replicas, expected in ((1, "1"), (2, "1"), (3, "2"), (4, "2")):
        config = TopicConfig.parse({}, DEFAULTS.for_replicas(replicas))
        assert str(config.min_insync_replicas) == expected
        entries = {each.name: each for each in topic_entries(config, DEFAULTS, replicas)}
        told = entries["min.insync.replicas"]
        assert told.value == expected
        assert [each.value for each in told.synonyms] == [expected]
        assert told.config_source == ConfigSource.DEFAULT_CONFIG


def test_how_many_must_be_in_sync_is_as_it_was_set() -> None:
    set_for_all = TopicDefaults.from_settings({"min.insync.replicas": 1})
    assert TopicConfig.parse({}, set_for_all.for_replicas(3)).min_insync_replicas == 1
    own = TopicConfig.parse({"min.insync.replicas": "3"}, set_for_all.for_replicas(3))
    assert own.min_insync_replicas == 3


def test_types_are_told() -> None:
    topic = of_topic()
    assert topic["segment.bytes"].config_type == ConfigType.INT
    assert topic["retention.ms"].config_type == ConfigType.LONG
    assert topic["cleanup.policy"].config_type == ConfigType.LIST
    assert topic["preallocate"].config_type == ConfigType.BOOLEAN
    assert topic["min.cleanable.dirty.ratio"].config_type == ConfigType.DOUBLE
    assert topic["compression.type"].config_type == ConfigType.STRING


def test_a_broker_tells_what_tools_look_for() -> None:
    broker = of_broker()
    assert broker["broker.id"].value == "7"
    assert broker["inter.broker.protocol.version"].value == "3.2-IV0"
    assert broker["log.dirs"].value == "/data"
    assert broker["listeners"].value == "PLAINTEXT://a:1"
    assert broker["advertised.listeners"].value == "PLAINTEXT://b:2"
    assert broker["num.partitions"].value == "8"
    assert broker["log.retention.ms"].value == "1000"
    assert broker["log.retention.ms"].config_source == ConfigSource.STATIC_BROKER_CONFIG
    assert broker["log.segment.bytes"].value == "1073741824"
    assert broker["log.segment.bytes"].config_source == ConfigSource.DEFAULT_CONFIG
    assert all(entry.read_only for name, entry in broker.items() if name not in DYNAMIC_KEYS)
    assert all(entry.documentation for entry in broker.values())


def test_what_is_not_asked_for_is_left_out() -> None:
    entry = of_topic(retention_ms="5")["retention.ms"]
    short = without(entry, synonyms=False, documentation=False)
    assert (short.synonyms, short.documentation) == ((), None)
    assert without(entry, synonyms=True, documentation=True) == entry


def test_a_rate_that_is_set_while_it_runs() -> None:
    shared = {FOLLOWER_RATE: "20", LEADER_RATE: "30"}
    entries = of_broker({FOLLOWER_RATE: "10"}, shared)
    own = entries[FOLLOWER_RATE]
    assert (own.value, own.read_only) == ("10", False)
    assert [(each.value, each.source) for each in own.synonyms] == [
        ("10", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("20", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (str(2**63 - 1), ConfigSource.DEFAULT_CONFIG),
    ]
    everybodys = entries[LEADER_RATE]
    assert (everybodys.value, everybodys.config_source) == (
        "30",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )
    assert {each.name: each.value for each in shared_entries(shared)} == shared
    assert shared_entries({}) == ()


def test_which_rate_counts() -> None:
    def follower_rate(own: str = "", shared: str = "") -> int | None:
        map_ = ClusterSnapshot(
            broker_configs={7: {FOLLOWER_RATE: own} if own else {}},
            broker_defaults={FOLLOWER_RATE: shared} if shared else {},
        )
        return rate(FOLLOWER_RATE, 7, map_)

    assert follower_rate() is None
    assert follower_rate(shared="5") == 5
    assert follower_rate("3", "5") == 3
    assert follower_rate("much", "5") == 5
    assert follower_rate(str(2**63 - 1), "5") is None
