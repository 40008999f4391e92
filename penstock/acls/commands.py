"""`penstock acls list`, `add`, `remove` and `test`."""

import click

from broker.access.acl_evaluation import Permissions
from client.admin.acls import Rule, add_acls, all_acls, beside_acls, remove_acls
from ground.printable import one_line
from penstock.acls.rules import (
    COLUMNS,
    OPERATIONS,
    PrincipalType,
    ResourceParam,
    check_host,
    check_operation,
    operation_option,
    patterns,
    resource_options,
    row,
    rules_in,
    rules_of,
    sentence,
)
from penstock.cli.confirmation import confirm_deletion, yes_option
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option, connected
from wire.acls import ANYTHING, USER, AclFilter, Operation, PatternType, ResourcePattern

_NOT_ALLOWED = 1
_SHOWN = 5  # rules in a question


@click.command()
@click.option(
    "--principal", type=PrincipalType(), metavar="NAME", help="Only ACLs of this very principal."
)
@resource_options
@click.option("--matching", is_flag=True, help="All ACLs that apply to a resource of that name.")
@bootstrap_option
@json_option
def list_acls(
    *,
    principal: str | None,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    transactional_ids: tuple[str, ...],
    cluster: bool,
    prefixed: bool,
    matching: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """List ACLs: all, or those of a resource or principal.

    \b
    Example:
        penstock acls list
        penstock acls list --topic page_views --matching
    """
    resources = patterns(topics, groups, transactional_ids, cluster=cluster, prefixed=prefixed)
    if matching and (prefixed or not resources):
        raise click.UsageError("--matching needs the name of a resource")
    match = PatternType.MATCH if matching else None
    filters = [
        AclFilter(pattern.resource_type, pattern.name, match or pattern.pattern_type, principal)
        for pattern in resources
    ] or [AclFilter(principal=principal)]
    matches: dict[Rule, None] = {}
    with connected(bootstrap) as brokers:
        for acl_filter in filters:
            matches |= dict.fromkeys(rules_in(all_acls(brokers, acl_filter)))
    rows = [row(rule) for rule in sorted(matches)]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(COLUMNS, rows)
    else:
        click.echo("no ACLs", err=True)


@click.command()
@click.argument("principal", type=PrincipalType())
@operation_option
@click.option("--producer", is_flag=True, help="The operations that a producer needs on --topic.")
@click.option(
    "--consumer", is_flag=True, help="The operations that a consumer needs on --topic and --group."
)
@resource_options
@click.option("--host", default=ANYTHING, metavar="ADDRESS", help="Only from this IP address.")
@click.option("--deny", is_flag=True, help="Deny, overriding any ACL that allows.")
@bootstrap_option
@json_option
def add(
    *,
    principal: str,
    operations: tuple[str, ...],
    producer: bool,
    consumer: bool,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    transactional_ids: tuple[str, ...],
    cluster: bool,
    prefixed: bool,
    host: str,
    deny: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Add ACLs that allow or deny a principal operations. '*' stands for every principal.

    \b
    Example:
        penstock acls add web-agents --producer --topic page_views
        penstock acls add reports --consumer --topic page_views --group reports
        penstock acls add alice --operation alter --operation describe --on-cluster
        penstock acls add '*' --deny --operation delete --topic '*'
    """
    resources = patterns(topics, groups, transactional_ids, cluster=cluster, prefixed=prefixed)
    rules = rules_of(
        principal, resources, operations, host, producer=producer, consumer=consumer, deny=deny
    )
    with connected(bootstrap) as brokers:
        add_acls(brokers, rules)
    _say("added", rules, as_json=as_json)


def _say(what: str, rules: list[Rule], *, as_json: bool) -> None:
    if as_json:
        print_json({what: [row(rule) for rule in rules]})
        return
    for rule in rules:
        print(one_line(f"{what}: {sentence(rule)}"))


@click.command()
@click.argument("principal", type=PrincipalType())
@operation_option
@resource_options
@yes_option
@bootstrap_option
@json_option
def remove(
    *,
    principal: str,
    operations: tuple[str, ...],
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    transactional_ids: tuple[str, ...],
    cluster: bool,
    prefixed: bool,
    yes: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Remove ACLs of a principal: all, or those of a resource or operation.

    Removes ACLs that allow and that deny. Names must be those of the ACLs themselves.

    \b
    Example:
        penstock acls remove web-agents --topic page_views
        penstock acls remove alice --yes
    """
    resources = patterns(topics, groups, transactional_ids, cluster=cluster, prefixed=prefixed)
    filters = [
        AclFilter(pattern.resource_type, pattern.name, pattern.pattern_type, principal)
        for pattern in resources
    ] or [AclFilter(principal=principal)]
    chosen_operations = {OPERATIONS[operation] for operation in operations}
    with connected(bootstrap) as brokers:
        rules = sorted(
            rule
            for acl_filter in filters
            for rule in rules_in(all_acls(brokers, acl_filter))
            if not chosen_operations or rule[1].operation in chosen_operations
        )
        if rules and not yes:
            sentences = "; ".join(sentence(rule) for rule in rules[:_SHOWN])
            remainder = f"; and {len(rules) - _SHOWN} more" if len(rules) > _SHOWN else ""
            confirm_deletion(f"rules: {sentences}{remainder}")
        remove_acls(brokers, rules)
    _say("removed", rules, as_json=as_json)
    if not rules and not as_json:
        click.echo("no such ACLs", err=True)


@click.command()
@click.argument("principal", type=PrincipalType())
@click.argument("operation", type=click.Choice(list(OPERATIONS)))
@click.argument("resource", type=ResourceParam())
@click.option(
    "--host", default="", metavar="ADDRESS", help="The client's IP address; default: any."
)
@bootstrap_option
@json_option
def test(
    *,
    principal: str,
    operation: str,
    resource: ResourcePattern,
    host: str,
    bootstrap: str,
    as_json: bool,
) -> int:
    """Test whether a principal may do something, and show the deciding ACL.

    RESOURCE is topic:NAME, group:NAME, transactional-id:NAME or cluster. Exit code 0: it may; 1: it
    may not, or the test failed.

    \b
    Example:
        penstock acls test alice write topic:page_views
        penstock acls test alice alter cluster --host 10.0.0.7
    """
    if host:
        check_host(host)
    chosen_operation = OPERATIONS[operation]
    if chosen_operation is Operation.ALL:
        raise click.UsageError("name a single operation, not ALL")
    check_operation(chosen_operation, resource)
    acl_filter = AclFilter(resource.resource_type, resource.name, PatternType.MATCH)
    with connected(bootstrap) as brokers:
        acls = all_acls(brokers, acl_filter)
        rights = beside_acls(brokers)
    permissions = Permissions(
        acls, rights.super_users or frozenset(), allow_if_no_acl=rights.allow_if_no_acl
    )
    kind, name = resource.resource_type, resource.name
    decision = permissions.explain(principal.removeprefix(USER), host, chosen_operation, kind, name)
    rule = None
    if decision.pattern is not None and decision.acl is not None:
        rule = decision.pattern, decision.acl
    if as_json:
        print_json({"allowed": decision.allowed, "why": decision.why, "acl": rule and row(rule)})
    else:
        reason = f"{decision.why}: {sentence(rule)}" if rule else decision.why
        if not decision.allowed and rights.super_users is None:
            reason += "; this cluster does not reveal its super users"
        print(one_line(f"{'yes' if decision.allowed else 'no'}: {reason}"))
    return 0 if decision.allowed else _NOT_ALLOWED
