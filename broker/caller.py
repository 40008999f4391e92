"""The client of a connection, as far as handlers may know it.

Its permissions are the subject of `broker.authorization`.
"""

from dataclasses import dataclass, field

from broker.gate import Gate
from broker.quotas import UNLIMITED, Mutations

ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Caller:
    """One client, by what it has stated and proven."""

    host: str
    client_id: str | None = None
    principal: str = ANONYMOUS
    listener: str = ""
    """The name of the one that it came to."""
    software: str = field(default="", compare=False)
    """What its library calls itself, and its version; empty if it has not said (ApiVersions)."""
    gate: Gate | None = field(default=None, compare=False, repr=False)
    """Where it logs in, if it must."""
    mutations: Mutations = field(default=UNLIMITED, compare=False, repr=False)
    """What this request of it may create and delete."""

    @property
    def is_librdkafka(self) -> bool:
        """Also for libraries built on it, whose version says so: `2.3.0-librdkafka-2.3.0`."""
        return "librdkafka" in self.software or self.software.startswith("confluent-kafka-")
