"""One file for each subject; here is the table of all of them, in the order in which they run."""

from bench.profile import Profile
from bench.profiles import (
    connections,
    consume,
    durability,
    latency,
    produce,
    recovery,
    registry_reads,
    registry_startup,
    registry_writes,
    startup,
)

_OF_REGISTRIES = (registry_startup.PROFILE, registry_reads.PROFILE, registry_writes.PROFILE)

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
        *_OF_REGISTRIES,
    )
}


def is_of_registries(name: str) -> bool:
    """Whether registries are measured, and not brokers."""
    return PROFILES[name] in _OF_REGISTRIES


def called(name: str) -> list[str]:
    """The profile of this name, or all whose names begin with it: `registry` is three."""
    if name in PROFILES:
        return [name]
    return [each for each in PROFILES if each.startswith(f"{name}-")]
