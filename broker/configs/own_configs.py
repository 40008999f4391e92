"""The broker's own configs that cannot be changed while it runs: Kafka's names, with values from
the broker's file."""

from collections.abc import Callable
from typing import NamedTuple

from broker.configs.config import AuthorizationConfig, BrokerConfig
from broker.configs.config_values import text_of
from broker.configs.topic_config import TopicDefaults
from wire.acls import principal_named
from wire.messages.describe_configs import ConfigSource, ConfigType

_PROTOCOL_VERSION = "3.2-IV0"  # the profile of APIs that is served, in the words kafka-ui looks for

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST


class BrokerSettings(NamedTuple):
    """The settings from which the values of the broker's own configs are derived."""

    config: BrokerConfig
    defaults: TopicDefaults
    listener: str
    advertised: str

    @property
    def authorization(self) -> AuthorizationConfig:
        return self.config.authorization or AuthorizationConfig()


class OwnConfig(NamedTuple):
    name: str
    type: ConfigType
    value: Callable[[BrokerSettings], str | None]
    documentation: str
    source: ConfigSource = ConfigSource.STATIC_BROKER_CONFIG


def _millis(seconds: float) -> str:
    return str(round(seconds * 1000))


OWN_CONFIGS = (
    OwnConfig("broker.id", _INT, lambda broker: str(broker.config.id), "This broker's id (`id`)."),
    OwnConfig(
        "broker.rack",
        _STRING,
        lambda broker: broker.config.rack or None,
        "The rack of this broker (`rack`).",
    ),
    OwnConfig(
        "log.dirs",
        _STRING,
        lambda broker: broker.config.data_dir,
        "The data directory (`data_dir`).",
    ),
    OwnConfig(
        "listeners", _LIST, lambda broker: broker.listener, "The addresses on which it listens."
    ),
    OwnConfig(
        "advertised.listeners",
        _LIST,
        lambda broker: broker.advertised,
        "The addresses that clients are told.",
    ),
    OwnConfig(
        "zookeeper.connect",
        _STRING,
        lambda broker: broker.config.zookeeper,
        "The ZooKeeper ensemble (`zookeeper`).",
    ),
    OwnConfig(
        "inter.broker.protocol.version",
        _STRING,
        lambda _: _PROTOCOL_VERSION,
        "The Kafka release whose protocol is spoken.",
        ConfigSource.DEFAULT_CONFIG,
    ),
    OwnConfig(
        "auto.create.topics.enable",
        _BOOLEAN,
        lambda broker: text_of(broker.config.auto_create_topics),
        "Whether a topic is created on first use (`auto_create_topics`).",
    ),
    OwnConfig(
        "super.users",
        _STRING,
        lambda broker: ";".join(map(principal_named, broker.authorization.super_users)),
        "Principals that may do everything (`authorization.super_users`).",
    ),
    OwnConfig(
        "allow.everyone.if.no.acl.found",
        _BOOLEAN,
        lambda broker: text_of(
            broker.authorization.allow_if_no_acl or not broker.config.authorization
        ),
        "Whether resources without ACLs are open to all users (`authorization.allow_if_no_acl`).",
    ),
    OwnConfig(
        "delete.topic.enable",
        _BOOLEAN,
        lambda _: "true",
        "Whether topics can be deleted: always.",
        ConfigSource.DEFAULT_CONFIG,
    ),
    OwnConfig(
        "num.partitions",
        _INT,
        lambda broker: str(broker.defaults.partitions),
        "Partitions of a new topic without an explicit number (`topic_defaults`).",
    ),
    OwnConfig(
        "default.replication.factor",
        _INT,
        lambda broker: str(broker.defaults.replication_factor),
        "Replicas of a new topic without an explicit number (`topic_defaults`).",
    ),
    OwnConfig(
        "socket.request.max.bytes",
        _INT,
        lambda broker: str(broker.config.limits.request_bytes),
        "The largest request (`limits.request_bytes`).",
    ),
    OwnConfig(
        "max.connections",
        _INT,
        lambda broker: str(broker.config.limits.connections),
        "The most connections of clients (`limits.connections`).",
    ),
    OwnConfig(
        "connections.max.idle.ms",
        _LONG,
        lambda broker: str(int(broker.config.limits.idle_connection_seconds * 1000)),
        "How long a connection may be idle before it is closed (`limits.idle_connection_seconds`).",
    ),
    OwnConfig(
        "group.initial.rebalance.delay.ms",
        _INT,
        lambda broker: _millis(broker.config.groups.initial_rebalance_delay),
        "How long a new group waits for more members (`groups.initial_rebalance_delay`).",
    ),
    OwnConfig(
        "group.min.session.timeout.ms",
        _INT,
        lambda broker: _millis(broker.config.groups.least_session),
        "The shortest session timeout of a member (`groups.least_session`).",
    ),
    OwnConfig(
        "group.max.session.timeout.ms",
        _INT,
        lambda broker: _millis(broker.config.groups.most_session),
        "The longest session timeout of a member (`groups.most_session`).",
    ),
    OwnConfig(
        "group.max.size",
        _INT,
        lambda broker: str(broker.config.groups.most_members),
        "The most members of a group (`groups.most_members`).",
    ),
    OwnConfig(
        "offsets.retention.minutes",
        _INT,
        lambda broker: str(int(broker.config.groups.offsets_retention / 60)),
        "How long a group without members keeps its offsets (`groups.offsets_retention`).",
    ),
    OwnConfig(
        "offset.metadata.max.bytes",
        _INT,
        lambda broker: str(broker.config.groups.offset_metadata_bytes),
        "The largest metadata of a committed offset, in bytes (`groups.offset_metadata_bytes`).",
    ),
    OwnConfig(
        "log.retention.check.interval.ms",
        _LONG,
        lambda broker: str(int(broker.config.intervals.retention * 1000)),
        "How often retention checks the logs (`intervals.retention`).",
    ),
)
