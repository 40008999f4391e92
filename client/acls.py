"""What is done to ACLs: list, add, remove; and what a broker goes by beside them.

Any broker is asked. Each request may be sent again: to add what is there, or to remove what is not,
changes nothing.
"""

from collections.abc import Iterable

import msgspec

from client.admin import broker_configs
from client.brokers import Brokers
from client.errors import ClientError, check
from client.rights import on_cluster
from wire.acls import (
    USER,
    Acl,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from wire.messages import create_acls, delete_acls, describe_acls
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wire.messages.describe_acls import DescribeAclsRequest

Rule = tuple[ResourcePattern, Acl]


class BesideAcls(msgspec.Struct, frozen=True):
    """What a broker says that it goes by beside ACLs. `super_users` are names without `User:`, or
    None where it does not tell: Apache Kafka keeps them to itself."""

    super_users: frozenset[str] | None
    allow_if_no_acl: bool


def all_acls(brokers: Brokers, wanted: AclFilter) -> Acls:
    """Those that a filter takes."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = brokers.call_any(describe_acls.API, request)
    needs = on_cluster(brokers.who, Operation.DESCRIBE)
    check(answer.error_code, "ACLs", answer.error_message, needs=needs)
    found: dict[ResourcePattern, tuple[Acl, ...]] = {}
    try:
        for each in answer.resources:
            pattern = ResourcePattern(
                ResourceType(each.resource_type),
                each.resource_name,
                PatternType(each.pattern_type),
            )
            found[pattern] = tuple(
                Acl(
                    acl.principal,
                    acl.host,
                    Operation(acl.operation),
                    Permission(acl.permission_type),
                )
                for acl in each.acls
            )
    except ValueError as error:
        raise ClientError(
            f"the broker lists an ACL that this release cannot read: {error}"
        ) from None
    return found


def add_acls(brokers: Brokers, rules: Iterable[Rule]) -> None:
    """All of them; the first that is refused is raised, and the others are added."""
    creations = tuple(
        AclCreation(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            resource_pattern_type=pattern.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for pattern, acl in rules
    )
    answer = brokers.call_any(create_acls.API, CreateAclsRequest(creations=creations))
    needs = on_cluster(brokers.who, Operation.ALTER)
    for result, asked in zip(answer.results, creations, strict=True):
        check(result.error_code, f"ACL on {asked.resource_name}", result.error_message, needs=needs)


def remove_acls(brokers: Brokers, rules: Iterable[Rule]) -> None:
    """Exactly these."""
    needs = on_cluster(brokers.who, Operation.ALTER)
    for pattern, acl in rules:
        wanted = DeleteAclsFilter(
            resource_type_filter=pattern.resource_type,
            resource_name_filter=pattern.name,
            pattern_type_filter=pattern.pattern_type,
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        answer = brokers.call_any(delete_acls.API, DeleteAclsRequest(filters=(wanted,)))
        for result in answer.filter_results:
            what = f"ACL on {pattern.name}"
            check(result.error_code, what, result.error_message, needs=needs)
            for each in result.matching_acls:
                check(each.error_code, what, each.error_message, needs=needs)


def beside_acls(brokers: Brokers) -> BesideAcls:
    """As one broker has it; those of a cluster should have the same."""
    known = brokers.persist(lambda: brokers.refresh([]))
    configs = {each.name: each.value for each in broker_configs(brokers, min(known.brokers))}
    named = configs.get("super.users")
    if named is None:
        users = None
    else:
        users = frozenset(
            each.strip().removeprefix(USER) for each in named.split(";") if each.strip()
        )
    return BesideAcls(users, configs.get("allow.everyone.if.no.acl.found") == "true")
