"""One file for each subject; here is the table of all of them, in the order in which they run."""

from bench.profile import Profile
from bench.profiles import connections, consume, durability, latency, produce, recovery, startup

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
    )
}
