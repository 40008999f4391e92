"""Adds and removes ACLs on behalf of clients, and interprets the codes and names in their requests.

ACLs can be changed through any broker. Changes are written to ZooKeeper, one pattern at a time, in
a worker thread. The client is answered when this broker has applied the change, or after a timeout:
the change is then written and will take effect. A rejected change is an `ApiError`.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from broker.access.authorization import Authorization
from broker.connections.caller import Caller
from broker.errors import ApiError
from cluster.errors import ClusterError, Unavailable
from cluster.records import acls
from cluster.session.session import Session
from wire.acls import (
    PATTERN_TYPES,
    RESOURCE_TYPES,
    THE_CLUSTER,
    Acl,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    count,
)
from wire.errors import ErrorCode
from wire.messages.create_acls import AclCreation
from wire.messages.delete_acls import DeleteAclsFilter
from wire.messages.describe_acls import DescribeAclsRequest

MOST_ACLS: Final = 50_000
LONGEST_NAME: Final = 512  # of a resource, a principal or a host
_SEEN_SECONDS: Final = 5.0
_GLANCE_SECONDS: Final = 0.01

Code = TypeVar("Code", ResourceType, PatternType, Operation, Permission)
log = logging.getLogger(__name__)


class AclAdmin:
    """ACL changes requested by clients of one broker. Belongs to the event loop."""

    def __init__(self, session: Session, authorization: Authorization) -> None:
        self._session = session
        self._authorization = authorization

    @property
    def acls(self) -> Acls:
        return self._authorization.acls

    async def add(
        self, added: Mapping[ResourcePattern, Collection[Acl]], caller: Caller
    ) -> dict[ResourcePattern, ApiError]:
        """Adds ACLs; returns the patterns whose ACLs could not be added, with the reason."""
        acl_count = count(self.acls.values())
        if acl_count + sum(map(len, added.values())) > MOST_ACLS:
            error = ApiError(
                ErrorCode.invalid_request,
                f"there are already {acl_count} ACLs, and at most {MOST_ACLS} are allowed: use "
                "prefixed patterns, or remove unneeded ACLs",
            )
            return dict.fromkeys(added, error)
        _log("added", added, caller)
        return await self._change(acls.add, added, lambda now, wanted: wanted <= now)

    async def remove(
        self, removed: Mapping[ResourcePattern, Collection[Acl]], caller: Caller
    ) -> dict[ResourcePattern, ApiError]:
        """Removes ACLs; returns the patterns whose ACLs could not be removed, with the reason."""
        _log("removed", removed, caller)
        return await self._change(acls.remove, removed, lambda now, gone: not (gone & now))

    async def _change(
        self,
        write: Callable[[Session, ResourcePattern, Collection[Acl]], None],
        changes: Mapping[ResourcePattern, Collection[Acl]],
        is_in_force: Callable[[set[Acl], set[Acl]], bool],
    ) -> dict[ResourcePattern, ApiError]:
        errors = await asyncio.to_thread(_write, self._session, write, changes)
        pending_changes = [
            (pattern, set(change)) for pattern, change in changes.items() if pattern not in errors
        ]

        def all_in_force() -> bool:
            current_acls = self.acls
            while pending_changes:
                pattern, changed_acls = pending_changes[-1]
                if not is_in_force(set(current_acls.get(pattern, ())), changed_acls):
                    return False
                pending_changes.pop()
            return True

        with suppress(TimeoutError):  # it is written, and may have been changed again since
            async with asyncio.timeout(_SEEN_SECONDS):
                # Waiting in the view would hold a thread for each waiting client.
                while not all_in_force():  # noqa: ASYNC110
                    await asyncio.sleep(_GLANCE_SECONDS)
        return errors


def _write(
    session: Session,
    write: Callable[[Session, ResourcePattern, Collection[Acl]], None],
    changes: Mapping[ResourcePattern, Collection[Acl]],
) -> dict[ResourcePattern, ApiError]:
    """Runs in a worker thread."""
    errors: dict[ResourcePattern, ApiError] = {}
    outage: ApiError | None = None  # the others would only run into the same timeout
    for pattern, change in changes.items():
        if outage is not None:
            errors[pattern] = outage
            continue
        try:
            write(session, pattern, change)
        except Unavailable as error:  # it may have happened
            errors[pattern] = outage = ApiError(ErrorCode.request_timed_out, str(error))
        except ClusterError as error:
            errors[pattern] = ApiError(ErrorCode.invalid_request, str(error))
    return errors


def _log(what: str, changes: Mapping[ResourcePattern, Collection[Acl]], caller: Caller) -> None:
    log.info(
        "acls %s principal=%r client=%s number=%d on=%r",
        what,
        caller.principal,
        caller.host,
        sum(map(len, changes.values())),
        ", ".join(f"{rule.resource_type.words}:{rule.name}" for rule in changes)[:200],
    )


# Interpreting codes and names


def understood_rule(asked: AclCreation) -> tuple[ResourcePattern, Acl]:
    """Returns the ACL that a client asks to create, and the pattern of its resources."""
    resource_type = _checked_code(
        ResourceType, asked.resource_type, RESOURCE_TYPES, "resource type"
    )
    pattern_type = _checked_code(
        PatternType, asked.resource_pattern_type, PATTERN_TYPES, "pattern type"
    )
    name, principal = asked.resource_name, asked.principal
    acl = Acl(
        principal,
        asked.host,
        _checked_code(Operation, asked.operation, _known_codes(Operation), "operation"),
        _checked_code(Permission, asked.permission_type, _known_codes(Permission), "permission"),
    )
    for field, text in (("resource name", name), ("principal", principal), ("host", asked.host)):
        if not text:
            raise ApiError(ErrorCode.invalid_request, f"Invalid empty {field}")
        if len(text) > LONGEST_NAME:
            raise ApiError(
                ErrorCode.invalid_request,
                f"the {field} has {len(text)} characters, at most {LONGEST_NAME} are allowed",
            )
    if resource_type is ResourceType.CLUSTER and name != THE_CLUSTER:
        raise ApiError(
            ErrorCode.invalid_request,
            f"The only valid name for the CLUSTER resource is {THE_CLUSTER}",
        )
    type_, colon, principal_name = principal.partition(":")
    if not (type_ and colon and principal_name):
        raise ApiError(
            ErrorCode.invalid_request, f"{principal[:80]!r} is not of the form User:name"
        )
    return ResourcePattern(resource_type, name, pattern_type), acl


def understood_filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _checked_code(ResourceType, asked.resource_type_filter, ResourceType, "resource type"),
        asked.resource_name_filter,
        _checked_code(PatternType, asked.pattern_type_filter, PatternType, "pattern type"),
        asked.principal_filter,
        asked.host_filter,
        _checked_code(Operation, asked.operation, Operation, "operation"),
        _checked_code(Permission, asked.permission_type, Permission, "permission"),
    )


def _known_codes(codes: type[Code]) -> tuple[Code, ...]:
    return tuple(code for code in codes if code.name != "ANY")


def _checked_code(codes: type[Code], value: int, allowed: Iterable[Code], what: str) -> Code:
    for code in allowed:
        if code == value:
            return code
    raise ApiError(ErrorCode.invalid_request, f"{what} {value} is not allowed here")


def by_pattern(
    rules: Iterable[tuple[ResourcePattern, Acl]],
) -> dict[ResourcePattern, set[Acl]]:
    patterns: defaultdict[ResourcePattern, set[Acl]] = defaultdict(set)
    for pattern, acl in rules:
        patterns[pattern].add(acl)
    return dict(patterns)


def check_is_on(is_on: bool) -> None:
    """Raises ApiError if authorization is off, as ACLs would have no effect."""
    if not is_on:
        raise ApiError(
            ErrorCode.security_disabled,
            "No Authorizer is configured on the broker: its configuration has no `authorization:`",
        )
