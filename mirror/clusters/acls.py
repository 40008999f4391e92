"""Adds the ACLs of the source's topics to their copies at the target.

Rule 1: only read operations are copied: READ, DESCRIBE, DESCRIBE_CONFIGS. ALL becomes these three.
        Only mirrors write to copies, no matter who writes to the source.
Rule 2: an ACL on a prefix or on all topics is copied to each copy whose topic it covers, and to
        nothing else at the target.
Rule 3: nothing is removed, since the mirror cannot tell its ACLs from those of others.
Rule 4: DENY is added before ALLOW.

Runs on its own thread; no failure here delays the copying.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from client.admin.acls import Rule, add_acls, all_acls
from mirror.config import MirrorConfig
from mirror.periodic_task import PeriodicTask
from wire.acls import (
    ANYTHING,
    Acl,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

log = logging.getLogger(__name__)

_LEAST_S: Final = 1.0
_AT_ONCE: Final = 200
_READ_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_TOPIC_ACLS: Final = AclFilter(resource_type=ResourceType.TOPIC)

Copies = Callable[[], Mapping[str, str]]
"""Topics of the target by the source topics they are copies of."""


def due(there: Acls, copies: Mapping[str, str], here: Acls) -> list[Rule]:
    """The ACLs to add at the target. Pure."""
    missing_rules: dict[Rule, None] = {}
    for pattern, acls in there.items():
        for copy in _under(pattern, copies):
            resource = ResourcePattern(ResourceType.TOPIC, copy)
            existing_rules = here.get(resource, ())
            read_acls = (read_acl for acl in acls for read_acl in _read_acls(acl))
            missing_rules.update(
                {(resource, acl): None for acl in read_acls if acl not in existing_rules}
            )
    return sorted(missing_rules, key=lambda rule: rule[1].permission is not Permission.DENY)


def _under(pattern: ResourcePattern, copies: Mapping[str, str]) -> list[str]:
    """Copies of the topics that the pattern covers. Most patterns are one topic's name."""
    if pattern.pattern_type is PatternType.LITERAL and pattern.name != ANYTHING:
        return [copies[pattern.name]] if pattern.name in copies else []
    return [copy for topic, copy in copies.items() if pattern.covers(topic)]


def _read_acls(acl: Acl) -> Iterator[Acl]:
    operations = _READ_OPERATIONS if acl.operation is Operation.ALL else (acl.operation,)
    for operation in operations:
        if operation in _READ_OPERATIONS:
            yield Acl(acl.principal, acl.host, operation, acl.permission)


class AclsSync(PeriodicTask):
    """Adds missing ACLs at intervals, in each worker."""

    def __init__(self, config: MirrorConfig, copies: Copies) -> None:
        interval = max(_LEAST_S, config.interval)
        super().__init__(config, interval, what="acls", waits="ACLs are not copied")
        self._copies = copies

    def look(self) -> bool:
        copies = self._copies()
        if not copies:
            return False
        with self._side(source=True) as source, self._side(source=False) as target:
            missing_rules = due(
                all_acls(source, _TOPIC_ACLS), copies, all_acls(target, _TOPIC_ACLS)
            )
            for first in range(0, len(missing_rules), _AT_ONCE):
                if self._stopping.is_set():
                    break
                batch = missing_rules[first : first + _AT_ONCE]
                add_acls(target, batch)
                for pattern, acl in batch:
                    log.info(
                        "ACL copied topic=%s principal=%r operation=%s permission=%s",
                        *(pattern.name, acl.principal, acl.operation.name, acl.permission.name),
                    )
        return True
