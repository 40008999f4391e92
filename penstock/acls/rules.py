"""Command-line arguments for resources, operations and principals, and the ACLs that they stand
for, also as output."""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from client.admin.acls import Rule
from wire.acls import (
    ANYTHING,
    EVERYBODY,
    OPERATIONS_ON,
    RESOURCE_TYPES,
    THE_CLUSTER,
    Acl,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    principal_named,
)

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS: Final = ("principal", "host", "permission", "operation", "kind", "name", "pattern")
OPERATIONS: Final = {
    _spelt: operation
    for operation in Operation
    if operation is not Operation.ANY and (_spelt := operation.name.lower().replace("_", "-"))
}
_PRODUCER: Final = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMER: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}
KINDS: Final = {
    resource_type.name.lower().replace("_", "-"): resource_type for resource_type in RESOURCE_TYPES
}


class PrincipalType(click.ParamType[str]):
    """The type of principals: `alice` and `User:alice` are the same; `*` is every principal."""

    name = "principal"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return principal_of(value)
        except click.UsageError as error:
            self.fail(error.message, param, ctx)


def principal_of(text: str) -> str:
    principal = EVERYBODY if text == "*" else principal_named(text)
    if principal == principal_named(""):
        raise click.UsageError("a principal needs a name")
    return principal


class ResourceParam(click.ParamType[ResourcePattern]):
    """The type of resources: `topic:views`, `group:g`, `transactional-id:t`, `cluster`."""

    name = "resource"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ResourcePattern:
        if isinstance(value, ResourcePattern):
            return value
        word, separator, name = value.partition(":")
        kind = KINDS.get(word)
        if kind is ResourceType.CLUSTER and not separator:
            return ResourcePattern(kind, THE_CLUSTER)
        if kind is None or not name:
            self.fail(f"{value!r} is not topic:NAME, group:NAME, or cluster", param, ctx)
        return ResourcePattern(kind, name)


def resource_options(command: F) -> F:
    """Adds one option for each parameter of `patterns`."""
    for option in (
        click.option("--prefixed", is_flag=True, help="Names are prefixes."),
        click.option("--on-cluster", "cluster", is_flag=True, help="The cluster itself."),
        click.option(
            "--transactional-id", "transactional_ids", multiple=True, metavar="NAME",
            help="A transactional id; may be repeated.",
        ),
        click.option(
            "--group", "groups", multiple=True, metavar="NAME",
            help="A consumer group, or '*' for all; may be repeated.",
        ),
        click.option(
            "-t", "--topic", "topics", multiple=True, metavar="TOPIC",
            help="A topic, or '*' for all; may be repeated.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def operation_option(command: F) -> F:
    return click.option(
        "--operation",
        "operations",
        multiple=True,
        type=click.Choice(list(OPERATIONS)),
        help="May be repeated.",
    )(command)


def patterns(
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    transactional_ids: tuple[str, ...],
    *,
    cluster: bool,
    prefixed: bool,
) -> list[ResourcePattern]:
    """Returns the resources that the options name."""
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    kinds_and_names = [
        *((ResourceType.TOPIC, name) for name in topics),
        *((ResourceType.GROUP, name) for name in groups),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids),
    ]
    resources = [ResourcePattern(kind, name, pattern_type) for kind, name in kinds_and_names]
    if cluster:
        resources.append(ResourcePattern(ResourceType.CLUSTER, THE_CLUSTER))
    if any(not pattern.name for pattern in resources):
        raise click.UsageError("a name cannot be empty")
    if prefixed and any(pattern.name == "*" for pattern in resources):
        raise click.UsageError(
            "'*' with --prefixed means names that begin with an asterisk: omit --prefixed"
        )
    return resources


def check_operation(operation: Operation, pattern: ResourcePattern) -> None:
    """Checks that resources of this type have the operation, since the ACL would otherwise have no
    effect. Raises UsageError."""
    kind = pattern.resource_type
    operations = (*OPERATIONS_ON[kind], Operation.ALL)
    if operation not in operations:
        words = ", ".join(action.name.lower().replace("_", "-") for action in operations)
        raise click.UsageError(
            f"{operation.words} is not an operation on a {kind.words}: the operations are {words}"
        )


def row(rule: Rule) -> dict[str, object]:
    """Returns an ACL as a row of the table or of JSON, in Kafka's words."""
    pattern, acl = rule
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": acl.permission.words,
        "operation": acl.operation.words,
        "kind": pattern.resource_type.words,
        "name": pattern.name,
        "pattern": pattern.pattern_type.words,
    }


def sentence(rule: Rule) -> str:
    pattern, acl = rule
    verb = "may" if acl.permission is Permission.ALLOW else "may not"
    prefix = "names beginning with " if pattern.pattern_type is PatternType.PREFIXED else ""
    resource = (
        "the cluster"
        if pattern.resource_type is ResourceType.CLUSTER
        else f"{pattern.resource_type.words} {prefix}{pattern.name}"
    )
    host = "anywhere" if acl.host == "*" else acl.host
    return f"{acl.principal} {verb} {acl.operation.words} {resource}, from {host}"


def rules_in(acls: Acls) -> list[Rule]:
    return [(pattern, acl) for pattern, entries in sorted(acls.items()) for acl in entries]


def rules_of(
    principal: str,
    named: list[ResourcePattern],
    operations: Iterable[str],
    host: str,
    *,
    producer: bool = False,
    consumer: bool = False,
    deny: bool = False,
) -> list[Rule]:
    """Returns the ACLs that options, or an entry of a file, stand for. Raises UsageError if they
    are incomplete."""
    chosen_operations = [OPERATIONS[operation] for operation in operations]
    if not named:
        raise click.UsageError(
            "no resource: pass --topic, --group, --transactional-id or --on-cluster"
        )
    if not (chosen_operations or producer or consumer):
        raise click.UsageError("no operation: pass --operation, --producer or --consumer")
    if deny and (producer or consumer):
        raise click.UsageError("--deny needs --operation")
    check_host(host)
    permission = Permission.DENY if deny else Permission.ALLOW
    rules: list[Rule] = []
    for pattern in named:
        pattern_operations: list[Operation] = list(chosen_operations)
        for action in pattern_operations:
            check_operation(action, pattern)
        pattern_operations += _PRODUCER.get(pattern.resource_type, ()) if producer else ()
        pattern_operations += _CONSUMER.get(pattern.resource_type, ()) if consumer else ()
        if not pattern_operations:
            resource_kind = pattern.resource_type.words
            raise click.UsageError(
                f"--producer and --consumer do not apply to a {resource_kind}: pass --operation"
            )
        rules += [
            (pattern, Acl(principal, host, operation, permission))
            for operation in dict.fromkeys(pattern_operations)
        ]
    _check_whole(named, producer=producer, consumer=consumer)
    return rules


def check_host(host: str) -> None:
    if host == ANYTHING:
        return
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise click.UsageError(
            f"--host {host!r} is not an IP address; ACLs do not match names or networks"
        ) from None


def _check_whole(named: list[ResourcePattern], *, producer: bool, consumer: bool) -> None:
    kinds = {pattern.resource_type for pattern in named}
    if (producer or consumer) and ResourceType.TOPIC not in kinds:
        raise click.UsageError("--producer and --consumer need --topic")
    if consumer and ResourceType.GROUP not in kinds:
        raise click.UsageError("--consumer needs --group, too")
