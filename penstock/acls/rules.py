"""How commands name resources, operations and principals; and how a rule is shown."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from client.acls import Rule
from wire.acls import (
    EVERYBODY,
    OPERATIONS_ON,
    RESOURCE_TYPES,
    THE_CLUSTER,
    Acl,
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
    _spelt: each
    for each in Operation
    if each is not Operation.ANY and (_spelt := each.name.lower().replace("_", "-"))
}
KINDS: Final = {each.name.lower().replace("_", "-"): each for each in RESOURCE_TYPES}


class PrincipalType(click.ParamType[str]):
    """`alice` and `User:alice` are the same; `*` is everybody."""

    name = "principal"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        named = EVERYBODY if value == "*" else principal_named(value)
        if named == principal_named(""):
            self.fail("a principal has a name", param, ctx)
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
    if any(not each.name for each in found):
        raise click.UsageError("a name cannot be empty")
    if prefixed and any(each.name == "*" for each in found):
        raise click.UsageError("'*' with --prefixed is names that begin with a star: leave it out")
    return found


def check_operation(operation: Operation, pattern: ResourcePattern) -> None:
    """Raise unless it is something that can be done to such a resource: a rule about it would look
    as if it did something."""
    kind = pattern.resource_type
    possible = (*OPERATIONS_ON[kind], Operation.ALL)
    if operation not in possible:
        words = ", ".join(each.name.lower().replace("_", "-") for each in possible)
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


def made(
    principal: str, host: str, permission: Permission, pattern: ResourcePattern, *todo: Operation
) -> list[Rule]:
    return [(pattern, Acl(principal, host, each, permission)) for each in todo]
