"""The configs of a broker and of its topics, in the form of DescribeConfigs.

Each value has its source and, on request, its synonyms: the places where it could be set, in order
of precedence. A topic's config is set for the topic (TOPIC_CONFIG), or in the broker's file under
`topic_defaults` (STATIC_BROKER_CONFIG, under the name that Kafka's brokers use), or nowhere
(DEFAULT_CONFIG).

A broker's own configs have Kafka's names, since Kafka's tools read them. All are read-only except
those that can be set while it runs, for itself (DYNAMIC_BROKER_CONFIG) or for all brokers
(DYNAMIC_DEFAULT_BROKER_CONFIG).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from broker.configs.config import AuthorizationConfig, BrokerConfig
from broker.configs.config_values import text_of
from broker.configs.dynamic_configs import DYNAMIC_KEYS
from broker.configs.topic_config import NOTHING, TopicConfig, TopicDefaults, built_in
from broker.configs.topic_config_table import TOPIC_CONFIG_KEYS, ConfigKey, topic_config_key
from wire.acls import principal_named
from wire.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

PROTOCOL_VERSION = "3.2-IV0"  # the profile of APIs that is served, in the words kafka-ui looks for

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST


def topic_entries(
    config: TopicConfig, defaults: TopicDefaults, replicas: int
) -> tuple[DescribeConfigsResourceResult, ...]:
    """All configs of a topic with this replication factor, with synonyms and documentation."""
    return tuple(
        _entry(
            key.name,
            text_of(config.values[key.name]),
            key.type.kind,
            key.documentation,
            _topic_synonyms(key, config, defaults, replicas),
        )
        for key in map(topic_config_key, config.values)
    )


def broker_entries(
    config: BrokerConfig,
    defaults: TopicDefaults,
    own: Mapping[str, str] = NOTHING,
    shared: Mapping[str, str] = NOTHING,
    *,
    listener: str,
    advertised: str,
) -> tuple[DescribeConfigsResourceResult, ...]:
    """All configs of one broker, which listens at one address and advertises another; `own` and
    `shared` are set while it runs, for itself and for all brokers."""
    entries = [
        _entry(
            name,
            value,
            kind,
            documentation,
            (DescribeConfigsSynonym(name=name, value=value, source=source),),
            read_only=True,
        )
        for name, value, kind, source, documentation in _own(config, defaults, listener, advertised)
    ]
    for key in TOPIC_CONFIG_KEYS.values():
        if key.broker_name:
            synonyms = _broker_synonyms(key, defaults, defaults.replication_factor)
            entries.append(
                _entry(
                    key.broker_name,
                    synonyms[0].value,
                    key.type.kind,
                    f"The default of {key.name} for topics. {key.documentation}",
                    synonyms,
                    read_only=True,
                )
            )
    entries += [_dynamic(key, own, shared) for key in DYNAMIC_KEYS.values()]
    return tuple(sorted(entries, key=lambda entry: entry.name))


def shared_entries(shared: Mapping[str, str]) -> tuple[DescribeConfigsResourceResult, ...]:
    return tuple(
        _dynamic(key, NOTHING, shared) for name, key in DYNAMIC_KEYS.items() if name in shared
    )


def _dynamic(
    key: ConfigKey, own: Mapping[str, str], shared: Mapping[str, str]
) -> DescribeConfigsResourceResult:
    synonyms = tuple(
        DescribeConfigsSynonym(name=key.name, value=overrides[key.name], source=source)
        for overrides, source in (
            (own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (shared, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            ({key.name: key.default}, ConfigSource.DEFAULT_CONFIG),
        )
        if key.name in overrides
    )
    return _entry(key.name, synonyms[0].value, key.type.kind, key.documentation, synonyms)


def without(
    entry: DescribeConfigsResourceResult, *, synonyms: bool, documentation: bool
) -> DescribeConfigsResourceResult:
    """`entry` without the fields that were not requested."""
    return replace(
        entry,
        synonyms=entry.synonyms if synonyms else (),
        documentation=entry.documentation if documentation else None,
    )


def _entry(
    name: str,
    value: str | None,
    kind: ConfigType,
    documentation: str,
    synonyms: tuple[DescribeConfigsSynonym, ...],
    *,
    read_only: bool = False,
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        synonyms=synonyms,
        config_type=kind,
        documentation=documentation,
    )


def _topic_synonyms(
    key: ConfigKey, config: TopicConfig, defaults: TopicDefaults, replicas: int
) -> tuple[DescribeConfigsSynonym, ...]:
    inherited = _broker_synonyms(key, defaults, replicas) if key.broker_name else ()
    if key.name not in config.overrides:
        return inherited
    own = DescribeConfigsSynonym(
        name=key.name, value=config.overrides[key.name], source=ConfigSource.TOPIC_CONFIG
    )
    return (own, *inherited)


def _broker_synonyms(
    key: ConfigKey, defaults: TopicDefaults, replicas: int
) -> tuple[DescribeConfigsSynonym, ...]:
    nobodys = DescribeConfigsSynonym(
        name=key.broker_name,
        value=built_in(key, replicas),
        source=ConfigSource.DEFAULT_CONFIG,
    )
    if key.name not in defaults.configs:
        return (nobodys,)
    static = DescribeConfigsSynonym(
        name=key.broker_name,
        value=key.canonical(defaults.configs[key.name]),
        source=ConfigSource.STATIC_BROKER_CONFIG,
    )
    return (static, nobodys)


def _own(
    config: BrokerConfig, defaults: TopicDefaults, listener: str, advertised: str
) -> list[tuple[str, str | None, ConfigType, ConfigSource, str]]:
    """Name, value, type, source and documentation of the broker's own configs."""
    static, default = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG
    limits, groups = config.limits, config.groups
    authorization = config.authorization or AuthorizationConfig()
    return [
        ("broker.id", str(config.id), _INT, static, "This broker's id (`id`)."),
        ("broker.rack", config.rack or None, _STRING, static, "The rack of this broker (`rack`)."),
        ("log.dirs", config.data_dir, _STRING, static, "The data directory (`data_dir`)."),
        ("listeners", listener, _LIST, static, "The addresses on which it listens."),
        ("advertised.listeners", advertised, _LIST, static, "The addresses that clients are told."),
        (
            "zookeeper.connect",
            config.zookeeper,
            _STRING,
            static,
            "The ZooKeeper ensemble (`zookeeper`).",
        ),
        (
            "inter.broker.protocol.version",
            PROTOCOL_VERSION,
            _STRING,
            default,
            "The Kafka release whose protocol is spoken.",
        ),
        (
            "auto.create.topics.enable",
            text_of(config.auto_create_topics),
            _BOOLEAN,
            static,
            "Whether a topic is created on first use (`auto_create_topics`).",
        ),
        (
            "super.users",
            ";".join(principal_named(name) for name in authorization.super_users),
            _STRING,
            static,
            "Principals that may do everything (`authorization.super_users`).",
        ),
        (
            "allow.everyone.if.no.acl.found",
            text_of(authorization.allow_if_no_acl or not config.authorization),
            _BOOLEAN,
            static,
            "Whether resources without ACLs are open to everybody "
            "(`authorization.allow_if_no_acl`).",
        ),
        (
            "delete.topic.enable",
            "true",
            _BOOLEAN,
            default,
            "Whether topics can be deleted: always.",
        ),
        (
            "num.partitions",
            str(defaults.partitions),
            _INT,
            static,
            "Partitions of a new topic without an explicit number (`topic_defaults`).",
        ),
        (
            "default.replication.factor",
            str(defaults.replication_factor),
            _INT,
            static,
            "Replicas of a new topic without an explicit number (`topic_defaults`).",
        ),
        (
            "socket.request.max.bytes",
            str(limits.request_bytes),
            _INT,
            static,
            "The largest request (`limits.request_bytes`).",
        ),
        (
            "max.connections",
            str(limits.connections),
            _INT,
            static,
            "The most connections of clients (`limits.connections`).",
        ),
        (
            "connections.max.idle.ms",
            str(int(limits.idle_connection_seconds * 1000)),
            _LONG,
            static,
            "How long a connection may be idle before it is closed "
            "(`limits.idle_connection_seconds`).",
        ),
        (
            "group.initial.rebalance.delay.ms",
            _millis(groups.initial_rebalance_delay),
            _INT,
            static,
            "How long a new group waits for more members (`groups.initial_rebalance_delay`).",
        ),
        (
            "group.min.session.timeout.ms",
            _millis(groups.least_session),
            _INT,
            static,
            "The shortest session timeout of a member (`groups.least_session`).",
        ),
        (
            "group.max.session.timeout.ms",
            _millis(groups.most_session),
            _INT,
            static,
            "The longest session timeout of a member (`groups.most_session`).",
        ),
        (
            "group.max.size",
            str(groups.most_members),
            _INT,
            static,
            "The most members of a group (`groups.most_members`).",
        ),
        (
            "offsets.retention.minutes",
            str(int(groups.offsets_retention / 60)),
            _INT,
            static,
            "How long a group without members keeps its offsets (`groups.offsets_retention`).",
        ),
        (
            "offset.metadata.max.bytes",
            str(groups.offset_metadata_bytes),
            _INT,
            static,
            "The largest metadata of a committed offset, in bytes "
            "(`groups.offset_metadata_bytes`).",
        ),
        (
            "log.retention.check.interval.ms",
            str(int(config.intervals.retention * 1000)),
            _LONG,
            static,
            "How often retention checks the logs (`intervals.retention`).",
        ),
    ]


def _millis(seconds: float) -> str:
    return str(round(seconds * 1000))
