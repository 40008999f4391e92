"""`penstock acls apply`: adds and removes ACLs as declared in a file.

    acls:
    - {principal: web-agents, producer: true, topics: [page_views]}
    - {principal: reports, consumer: true, topics: [page_views], groups: [reports]}
    - {principal: team-a, operations: [all], topics: [team-a.], prefixed: true}
    - {principal: bob, state: absent}

An entry stands for the rules that `penstock acls add` makes of the same arguments. An absent entry
removes the rules that it describes: without `operations`, for all operations; without a resource,
on all resources. With --exact, rules that are not in the file are removed.

Rules are added before others are removed, so that no principal loses a right in between.
"""

from pathlib import Path

import click
import msgspec

from client.admin.acls import Rule, add_acls, all_acls, remove_acls
from penstock.acls.rules import (
    OPERATIONS,
    patterns,
    principal_of,
    row,
    rules_in,
    rules_of,
    sentence,
)
from penstock.cli.failures import WrongConfiguration
from penstock.connections.cluster import bootstrap_option, connected
from penstock.declared.plans import (
    Plan,
    State,
    between,
    carry_out,
    declaration_options,
    declared_in,
)
from wire.acls import ANYTHING, AclFilter, ResourcePattern


class DeclaredAcl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    principal: str
    operations: list[str] = []
    producer: bool = False
    consumer: bool = False
    topics: list[str] = []
    groups: list[str] = []
    transactional_ids: list[str] = []
    cluster: bool = False
    prefixed: bool = False
    host: str = ANYTHING
    deny: bool = False
    state: State = State.PRESENT

    def __post_init__(self) -> None:
        if unknown_names := [
            operation for operation in self.operations if operation not in OPERATIONS
        ]:
            raise ValueError(
                f"unknown operation {unknown_names[0]!r}: expected one of {', '.join(OPERATIONS)}"
            )

    @property
    def resources(self) -> list[ResourcePattern]:
        return patterns(
            tuple(self.topics),
            tuple(self.groups),
            tuple(self.transactional_ids),
            cluster=self.cluster,
            prefixed=self.prefixed,
        )

    def rules(self) -> list[Rule]:
        return rules_of(
            principal_of(self.principal),
            self.resources,
            self.operations,
            self.host,
            producer=self.producer,
            consumer=self.consumer,
            deny=self.deny,
        )

    def check(self) -> None:
        """Checks an entry, whether its ACLs should be present or absent. Raises UsageError."""
        principal_of(self.principal)
        if self.state is State.PRESENT or self.producer or self.consumer or self.deny:
            self.rules()
        elif any(not resource.name for resource in self.resources):
            raise click.UsageError("a name cannot be empty")

    def describes(self, rule: Rule) -> bool:
        """Whether this entry, which declares ACLs absent, matches the rule."""
        if self.producer or self.consumer or self.deny:
            return rule in self.rules()
        pattern, acl = rule
        return (
            acl.principal == principal_of(self.principal)
            and (
                not self.operations
                or acl.operation in {OPERATIONS[name] for name in self.operations}
            )
            and (not self.resources or pattern in self.resources)
            and self.host in {ANYTHING, acl.host}
        )


class DeclaredAcls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    acls: list[DeclaredAcl] = []


def plans_of(
    declared: list[DeclaredAcl], present: list[Rule], *, exact: bool
) -> list[tuple[Plan, Rule]]:
    """Returns a plan for each rule, new rules first."""
    declared_rules: dict[Rule, None] = {}
    for index, entry in enumerate(declared):
        try:
            entry.check()
            if entry.state is State.PRESENT:
                declared_rules |= dict.fromkeys(entry.rules())
        except click.UsageError as error:
            raise WrongConfiguration(f"acls[{index}]: {error.message}") from None
    absent_entries = [entry for entry in declared if entry.state is State.ABSENT]
    removed_rules = [
        rule
        for rule in present
        if (exact and rule not in declared_rules)
        or any(entry.describes(rule) for entry in absent_entries)
    ]
    if contradictions := [
        rule for rule in declared_rules if any(entry.describes(rule) for entry in absent_entries)
    ]:
        raise WrongConfiguration(
            f"declared as present and as absent: {sentence(contradictions[0])}"
        )
    present_rules = set(present)
    plans = [
        (between(sentence(rule), row(rule) if rule in present_rules else None, row(rule)), rule)
        for rule in sorted(declared_rules)
    ]
    return plans + [
        (between(sentence(rule), row(rule), None), rule) for rule in sorted(removed_rules)
    ]


@click.command()
@declaration_options
@click.option("--exact", is_flag=True, help="Remove all rules that are not in the file.")
@bootstrap_option
def command(
    *, declared: Path, dry_run: bool, yes: bool, as_json: bool, exact: bool, bootstrap: str
) -> None:
    """Add and remove ACLs as declared in FILE.

    \b
    Example:
        penstock acls apply acls.yaml --dry-run
        penstock acls apply acls.yaml
    """
    entries = declared_in(DeclaredAcls, declared).acls
    if exact and not entries:
        raise WrongConfiguration("--exact with a file without rules would remove all rules")
    with connected(bootstrap) as brokers:
        rule_plans = plans_of(entries, rules_in(all_acls(brokers, AclFilter())), exact=exact)
        rules = {plan.name: rule for plan, rule in rule_plans}

        def do(plan: Plan) -> None:
            change = remove_acls if plan.after is None else add_acls
            change(brokers, [rules[plan.name]])

        plans = [plan for plan, _ in rule_plans]
        carry_out("acls", plans, do, dry_run=dry_run, yes=yes, as_json=as_json)
