"""The broker configs that can be changed while brokers run: throttle rates for moved replicas.

They are kept in ZooKeeper, as Kafka keeps them: for one broker, and for all that have none of their
own. All other configs are in the broker's file.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from broker.configs.config_values import MAX_LONG, long
from broker.configs.topic_config import NOTHING
from broker.configs.topic_config_table import ConfigKey
from broker.errors import ApiError, ErrorCode
from cluster.values import ClusterSnapshot

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"

DYNAMIC_KEYS: Final[Mapping[str, ConfigKey]] = {
    name: ConfigKey(name, long(1), str(MAX_LONG), name, documentation)
    for name, documentation in (
        (
            FOLLOWER_RATE,
            "The rate, in bytes a second, at which this broker copies the replicas named in its "
            "topics' follower.replication.throttled.replicas, while they are not in sync. "
            "In-sync replicas are not throttled, and do not count.",
        ),
        (
            LEADER_RATE,
            "The rate, in bytes a second, at which this broker sends to replicas that are not in "
            "sync, of partitions named in their topics' leader.replication.throttled.replicas.",
        ),
    )
}


def dynamic_key(name: str) -> ConfigKey:
    key = DYNAMIC_KEYS.get(name)
    if key is None:
        raise ApiError(
            ErrorCode.invalid_request,
            f"{name[:100]}: only {' and '.join(DYNAMIC_KEYS)} can be changed while a broker runs; "
            "all other configs are set in its configuration file",
        )
    return key


def rate(name: str, broker_id: int, snapshot: ClusterSnapshot) -> int | None:
    """Returns a rate in bytes a second; None: unlimited. An unreadable value counts as unset."""
    for overrides in (snapshot.broker_configs.get(broker_id, NOTHING), snapshot.broker_defaults):
        if name in overrides:
            with suppress(ApiError):
                value = int(DYNAMIC_KEYS[name].canonical(overrides[name]))
                return None if value == MAX_LONG else value
    return None


def overrides_of(snapshot: ClusterSnapshot, broker_id: int | None) -> Mapping[str, str]:
    if broker_id is None:
        return snapshot.broker_defaults
    return snapshot.broker_configs.get(broker_id, NOTHING)
