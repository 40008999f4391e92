"""The table of all profiles, in the order in which they run; each subject has a file."""

from enum import Enum, auto

from bench.figures.profile import Profile
from bench.profiles import (
    acls,
    agent_backlog,
    agent_latency,
    agent_steady,
    audit,
    audit_overhead,
    cluster_catch_up,
    cluster_latency,
    cluster_partitions,
    cluster_produce,
    connections,
    consume,
    durability,
    fleet,
    groups,
    host_produce,
    latency,
    loader,
    loader_month,
    loader_topics,
    logins,
    mirror,
    produce,
    recovery,
    registry_reads,
    registry_startup,
    registry_writes,
    startup,
    tls,
    up_idle,
)

_OF_GROUPS = (groups.PROFILE,)
_OF_LOCKS = (tls.PROFILE, logins.PROFILE, connections.OVER_TLS)
_OF_AUTHORIZATION = (acls.PROFILE,)
_OF_CLUSTERS = (
    cluster_produce.PROFILE,
    cluster_latency.PROFILE,
    cluster_partitions.PROFILE,
    cluster_catch_up.PROFILE,
)
_OF_HOSTS = (host_produce.PROFILE,)
_OF_FLEETS = (fleet.PROFILE,)
_OF_REGISTRIES = (registry_startup.PROFILE, registry_reads.PROFILE, registry_writes.PROFILE)
_OF_AGENTS = (agent_backlog.PROFILE, agent_steady.PROFILE, agent_latency.PROFILE)
_OF_MIRRORS = (mirror.PROFILE,)
_OF_LOADERS = (loader.PROFILE,)
_OF_TOPIC_LOADS = (loader_topics.PROFILE,)
_OF_HOURLY_LOADS = (loader_month.PROFILE,)
_OF_PIPELINES = (up_idle.PROFILE,)
_OF_AUDITS = (*audit.PROFILES, *audit_overhead.PROFILES)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        *produce.PROFILES,
        *consume.PROFILES,
        durability.PROFILE,
        latency.PROFILE,
        connections.PROFILE,
        startup.PROFILE,
        recovery.PROFILE,
        *_OF_GROUPS,
        *_OF_LOCKS,
        *_OF_AUTHORIZATION,
        *_OF_CLUSTERS,
        *_OF_HOSTS,
        *_OF_FLEETS,
        *_OF_REGISTRIES,
        *_OF_AGENTS,
        *_OF_LOADERS,
        *_OF_TOPIC_LOADS,
        *_OF_HOURLY_LOADS,
        *_OF_MIRRORS,
        *_OF_AUDITS,
        *_OF_PIPELINES,
    )
}


class Measured(Enum):
    """The kind of server that a profile measures."""

    BROKERS = auto()
    GROUPS = auto()
    LOCKS = auto()
    AUTHORIZATION = auto()
    CLUSTERS = auto()
    HOSTS = auto()
    FLEETS = auto()
    REGISTRIES = auto()
    AGENTS = auto()
    LOADERS = auto()
    TOPIC_LOADS = auto()
    HOURLY_LOADS = auto()
    AUDITS = auto()
    MIRRORS = auto()
    PIPELINES = auto()


def measured_by(name: str) -> Measured:
    profile = PROFILES[name]
    if profile in _OF_GROUPS:
        return Measured.GROUPS
    if profile in _OF_LOCKS:
        return Measured.LOCKS
    if profile in _OF_AUTHORIZATION:
        return Measured.AUTHORIZATION
    if profile in _OF_CLUSTERS:
        return Measured.CLUSTERS
    if profile in _OF_HOSTS:
        return Measured.HOSTS
    if profile in _OF_FLEETS:
        return Measured.FLEETS
    if profile in _OF_REGISTRIES:
        return Measured.REGISTRIES
    if profile in _OF_AGENTS:
        return Measured.AGENTS
    if profile in _OF_MIRRORS:
        return Measured.MIRRORS
    if profile in _OF_TOPIC_LOADS:
        return Measured.TOPIC_LOADS
    if profile in _OF_HOURLY_LOADS:
        return Measured.HOURLY_LOADS
    if profile in _OF_PIPELINES:
        return Measured.PIPELINES
    if profile in _OF_AUDITS:
        return Measured.AUDITS
    return Measured.LOADERS if profile in _OF_LOADERS else Measured.BROKERS


def profiles_named(name: str) -> list[str]:
    """Returns the profile of this name, or all that begin with it, as `registry` does for three."""
    if name in PROFILES:
        return [name]
    return [profile for profile in PROFILES if profile.startswith(f"{name}-")]
