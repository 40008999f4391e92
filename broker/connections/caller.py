"""The client of a connection, for handlers.

Its permissions are the subject of `broker.access.authorization`.
"""

from dataclasses import dataclass, field

from broker.connections.login_gate import LoginGate
from broker.connections.quotas import UNLIMITED, Mutations

ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Caller:
    """One client: what it has stated about itself, and what it has proven."""

    host: str
    client_id: str | None = None
    principal: str = ANONYMOUS
    listener: str = ""
    """The listener's name."""
    software: str = field(default="", compare=False)
    """The name and version of its library; empty if it has not sent them (ApiVersions)."""
    gate: LoginGate | None = field(default=None, compare=False, repr=False)
    """Its login gate, if it must log in."""
    mutations: Mutations = field(default=UNLIMITED, compare=False, repr=False)
    """What its current request may create and delete."""

    @property
    def is_librdkafka(self) -> bool:
        """Whether the client is librdkafka, or a library built on it whose version says so:
        `2.3.0-librdkafka-2.3.0`."""
        return "librdkafka" in self.software or self.software.startswith("confluent-kafka-")
