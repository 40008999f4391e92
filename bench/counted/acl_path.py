"""The broker's permission check, for a topic that the principal has not used before."""

from itertools import count
from pathlib import Path

from bench.counted.paths import Act
from bench.permissions import generated_acls
from broker.access.acl_evaluation import Permissions
from broker.connections.caller import ANONYMOUS
from wire.acls import Operation, ResourceType

_ACLS = 2_000


def asked_first(_: Path) -> Act:
    permissions = Permissions(generated_acls(_ACLS))
    numbers = count(100_000)

    def act(times: int) -> None:
        for _ in range(times):
            name = f"team7.{next(numbers)}.clicks"
            permissions.allows(ANONYMOUS, "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)

    return act
