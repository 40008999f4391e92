"""Who asks, and what they may do: what a handler may know of the connection that a request came on.

With nobody to authorize, everybody may do everything, and clients that ask are told so: one bit for
each operation, at the place of its code in the protocol; for each kind of resource those that Kafka
has for it.
"""

from dataclasses import dataclass, field

from broker.gate import Gate

ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Caller:
    """One client, as far as it has said and proven who it is."""

    host: str
    client_id: str | None = None
    principal: str = ANONYMOUS
    listener: str = ""
    """The name of the one that it came to."""
    gate: Gate | None = field(default=None, compare=False, repr=False)
    """Where it logs in, if it must."""


_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = range(3, 9)
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(9, 13)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ON_CLUSTER = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)  # fmt: skip
ON_TOPIC = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
