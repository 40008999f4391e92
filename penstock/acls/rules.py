"""How commands name resources, operations and principals; which rules that makes; and how a rule
is shown."""

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
    """`alice` and `User:alice` are the same; `*` is everybody."""

    name = "principal"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return principal_of(value)
        except click.UsageError as error:
            self.fail(error.message, param, ctx)


def principal_of(text: str) -> str:
    named = EVERYBODY if text == "*" else principal_named(text)
    if named == principal_named(""):
        raise click.UsageError("a principal has a name")
    return named


class ResourceParam(click.ParamType[ResourcePattern]):
    """`topic:views`, `group:g`, `transactional-id:t`, `cluster`."""

    name = "resource"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ResourcePattern:
        if isinstance(value, ResourcePattern):
            return value
        word, colon, name = value.partition(":")
        kind = KINDS.get(word)
        if kind is ResourceType.CLUSTER and not colon:
            return ResourcePattern(kind, THE_CLUSTER)
        if kind is None or not name:
            self.fail(f"{value!r} is not topic:NAME, group:NAME, or cluster", param, ctx)
        return ResourcePattern(kind, name)


def resource_options(command: F) -> F:
    """Adds what `patterns` takes."""
    for option in (
        click.option("--prefixed", is_flag=True, help="Names are meant as beginnings of names."),
        click.option("--on-cluster", "cluster", is_flag=True, help="The cluster itself."),
        click.option(
            "--transactional-id", "transactional_ids", multiple=True, metavar="NAME",
            help="May be repeated.",
        ),
        click.option(
            "--group", "groups", multiple=True, metavar="NAME",
            help="A consumer group; '*' for every one; may be repeated.",
        ),
        click.option(
            "-t", "--topic", "topics", multiple=True, metavar="TOPIC",
            help="'*' for every one; may be repeated.",
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
    """What the options name."""
    how = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    named = [
        *((ResourceType.TOPIC, name) for name in topics),
        *((ResourceType.GROUP, name) for name in groups),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids),
    ]
    found = [ResourcePattern(kind, name, how) for kind, name in named]
    if cluster:
        found.append(ResourcePattern(ResourceType.CLUSTER, THE_CLUSTER))
    if any(not pattern.name for pattern in found):
        raise click.UsageError("a name cannot be empty")
    if prefixed and any(pattern.name == "*" for pattern in found):
        raise click.UsageError("'*' with --prefixed is names that begin with a star: leave it out")
    return found


def check_operation(operation: Operation, pattern: ResourcePattern) -> None:
    """Raise unless it is something that can be done to such a resource: a rule about it would look
    as if it did something."""
    kind = pattern.resource_type
    possible = (*OPERATIONS_ON[kind], Operation.ALL)
    if operation not in possible:
        words = ", ".join(action.name.lower().replace("_", "-") for action in possible)
        raise click.UsageError(
            f"{operation.words} is nothing that can be done to a {kind.words}: {words}"
        )


def row(rule: Rule) -> dict[str, object]:
    """For a table, and as JSON: Kafka's words."""
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
    may = "may" if acl.permission is Permission.ALLOW else "may not"
    names = "names beginning with " if pattern.pattern_type is PatternType.PREFIXED else ""
    which = (
        "the cluster"
        if pattern.resource_type is ResourceType.CLUSTER
        else f"{pattern.resource_type.words} {names}{pattern.name}"
    )
    host = "anywhere" if acl.host == "*" else acl.host
    return f"{acl.principal} {may} {acl.operation.words} {which}, from {host}"


def standing_rules(acls: Acls) -> list[Rule]:
    return [(pattern, acl) for pattern, standing in sorted(acls.items()) for acl in standing]


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
    """What options, or an entry of a file, come to; UsageError if that is nothing, or not whole."""
    asked = [OPERATIONS[operation] for operation in operations]
    if not named:
        raise click.UsageError(
            "no resource: give --topic, --group, --transactional-id or --on-cluster"
        )
    if not (asked or producer or consumer):
        raise click.UsageError("no operation: give --operation, --producer or --consumer")
    if deny and (producer or consumer):
        raise click.UsageError("--deny goes with --operation")
    check_host(host)
    permission = Permission.DENY if deny else Permission.ALLOW
    rules: list[Rule] = []
    for pattern in named:
        todo: list[Operation] = list(asked)
        for action in todo:
            check_operation(action, pattern)
        todo += _PRODUCER.get(pattern.resource_type, ()) if producer else ()
        todo += _CONSUMER.get(pattern.resource_type, ()) if consumer else ()
        if not todo:
            which = pattern.resource_type.words
            raise click.UsageError(f"does not apply to a {which}: give --operation")
        rules += [
            (pattern, Acl(principal, host, operation, permission))
            for operation in dict.fromkeys(todo)
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
            f"--host {host!r} is not an IP address: ACLs match no names or networks"
        ) from None


def _check_whole(named: list[ResourcePattern], *, producer: bool, consumer: bool) -> None:
    kinds = {pattern.resource_type for pattern in named}
    if (producer or consumer) and ResourceType.TOPIC not in kinds:
        raise click.UsageError("--producer and --consumer go with --topic")
    if consumer and ResourceType.GROUP not in kinds:
        raise click.UsageError("--consumer goes with --group too")
