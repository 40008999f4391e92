"""Lists, adds and removes ACLs, and reads the broker configs that grant access besides them.

Any broker serves these requests. Each may be repeated: adding an ACL that exists, or removing one
that does not, changes nothing.
"""

from collections.abc import Iterable

import msgspec

from client.admin.topics import broker_configs
from client.connection.brokers import Brokers
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
    """Broker configs that grant access besides the ACLs. `super_users` are names without `User:`,
    or None where the broker does not disclose them, as Apache Kafka does not."""

    super_users: frozenset[str] | None
    allow_if_no_acl: bool


def all_acls(brokers: Brokers, acl_filter: AclFilter) -> Acls:
    """Returns the ACLs that match the filter."""
    request = DescribeAclsRequest(
        resource_type_filter=acl_filter.resource_type,
        resource_name_filter=acl_filter.name,
        pattern_type_filter=acl_filter.pattern_type,
        principal_filter=acl_filter.principal,
        host_filter=acl_filter.host,
        operation=acl_filter.operation,
        permission_type=acl_filter.permission,
    )
    response = brokers.call_any(describe_acls.API, request)
    needs = on_cluster(brokers.who, Operation.DESCRIBE)
    check(response.error_code, "ACLs", response.error_message, needs=needs)
    acls_by_pattern: dict[ResourcePattern, tuple[Acl, ...]] = {}
    try:
        for resource in response.resources:
            pattern = ResourcePattern(
                ResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
            )
            acls_by_pattern[pattern] = tuple(
                Acl(
                    acl.principal,
                    acl.host,
                    Operation(acl.operation),
                    Permission(acl.permission_type),
                )
                for acl in resource.acls
            )
    except ValueError as error:
        raise ClientError(
            f"the broker returned an ACL that this release cannot read: {error}"
        ) from None
    return acls_by_pattern


def add_acls(brokers: Brokers, rules: Iterable[Rule]) -> None:
    """Adds all rules. Raises the first refusal, after adding the other rules."""
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
    response = brokers.call_any(create_acls.API, CreateAclsRequest(creations=creations))
    needs = on_cluster(brokers.who, Operation.ALTER)
    for result, creation in zip(response.results, creations, strict=True):
        check(
            result.error_code, f"ACL on {creation.resource_name}", result.error_message, needs=needs
        )


def remove_acls(brokers: Brokers, rules: Iterable[Rule]) -> None:
    """Removes exactly these rules."""
    needs = on_cluster(brokers.who, Operation.ALTER)
    for pattern, acl in rules:
        acl_filter = DeleteAclsFilter(
            resource_type_filter=pattern.resource_type,
            resource_name_filter=pattern.name,
            pattern_type_filter=pattern.pattern_type,
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        response = brokers.call_any(delete_acls.API, DeleteAclsRequest(filters=(acl_filter,)))
        for result in response.filter_results:
            subject = f"ACL on {pattern.name}"
            check(result.error_code, subject, result.error_message, needs=needs)
            for matching_acl in result.matching_acls:
                check(matching_acl.error_code, subject, matching_acl.error_message, needs=needs)


def beside_acls(brokers: Brokers) -> BesideAcls:
    """Reads the configs of one broker that grant access; all brokers of a cluster should agree."""
    metadata = brokers.persist(lambda: brokers.refresh([]))
    configs = {
        config.name: config.value for config in broker_configs(brokers, min(metadata.brokers))
    }
    super_users = configs.get("super.users")
    if super_users is None:
        users = None
    else:
        users = frozenset(
            name.strip().removeprefix(USER) for name in super_users.split(";") if name.strip()
        )
    return BesideAcls(users, configs.get("allow.everyone.if.no.acl.found") == "true")
