"""Who may read a topic may read its copy: ACLs on topics of the source, on their copies at the
target.

Rule 1: of rights, those to read alone: READ, DESCRIBE, DESCRIBE_CONFIGS. ALL becomes these. Only
        mirrors write to copies, whoever writes to the source.
Rule 2: what stands on a beginning of names, or on all of them, is for each copy whose topic falls
        under it, and for nothing else at the target.
Rule 3: nothing is removed: nobody has written down which of them somebody else has made.
Rule 4: what forbids is there before what allows.

A thread of its own; nothing of ACLs keeps partitions from being copied.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from client.acls import Rule, add_acls, all_acls
from mirror.config import MirrorConfig
from mirror.rounds import Rounds
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
_TO_READ: Final = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_OF_TOPICS: Final = AclFilter(resource_type=ResourceType.TOPIC)

Copies = Callable[[], Mapping[str, str]]
"""Topics of the target, by those of the source that they are copies of."""


def due(there: Acls, copies: Mapping[str, str], here: Acls) -> list[Rule]:
    """What is to be added at the target. Pure."""
    found: dict[Rule, None] = {}
    for pattern, acls in there.items():
        for copy in _under(pattern, copies):
            stands_on = ResourcePattern(ResourceType.TOPIC, copy)
            has = here.get(stands_on, ())
            wanted = (each for acl in acls for each in _to_read(acl))
            found.update({(stands_on, each): None for each in wanted if each not in has})
    return sorted(found, key=lambda rule: rule[1].permission is not Permission.DENY)


def _under(pattern: ResourcePattern, copies: Mapping[str, str]) -> list[str]:
    """Copies of the topics that it covers. Most patterns are one topic's name."""
    if pattern.pattern_type is PatternType.LITERAL and pattern.name != ANYTHING:
        return [copies[pattern.name]] if pattern.name in copies else []
    return [copy for topic, copy in copies.items() if pattern.covers(topic)]


def _to_read(acl: Acl) -> Iterator[Acl]:
    operations = _TO_READ if acl.operation is Operation.ALL else (acl.operation,)
    for each in operations:
        if each in _TO_READ:
            yield Acl(acl.principal, acl.host, each, acl.permission)


class AclsSync(Rounds):
    """Of one worker."""

    def __init__(self, config: MirrorConfig, copies: Copies) -> None:
        interval = max(_LEAST_S, config.interval)
        super().__init__(config, interval, what="acls", waits="ACLs are not copied")
        self._copies = copies

    def look(self) -> bool:
        copies = self._copies()
        if not copies:
            return False
        with self._side(source=True) as source, self._side(source=False) as target:
            wanted = due(all_acls(source, _OF_TOPICS), copies, all_acls(target, _OF_TOPICS))
            for first in range(0, len(wanted), _AT_ONCE):
                if self._told.is_set():
                    break
                some = wanted[first : first + _AT_ONCE]
                add_acls(target, some)
                for pattern, acl in some:
                    log.info(
                        "ACL copied topic=%s principal=%r operation=%s permission=%s",
                        *(pattern.name, acl.principal, acl.operation.name, acl.permission.name),
                    )
        return True
