"""Plans for what a file declares, and their output.

Rule 1: everything is planned before anything is changed; `--dry-run` shows the plans.
Rule 2: if anything would be refused, nothing is changed.
Rule 3: only what the file calls absent is deleted, or with --exact what it does not name; and only
        after a confirmation.

After an interrupted run, the next one carries out the rest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from ground.printable import one_line
from penstock.cli.confirmation import confirm_deletion, yes_option
from penstock.cli.failures import Failed, WrongConfiguration
from penstock.cli.output import json_option, print_json, say
from penstock.config.configuration import ConfigurationError, load

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Document = Mapping[str, Any]  # of JSON values
_SHOWN: Final = 5  # names in a confirmation


class State(StrEnum):
    """Whether a thing should exist."""

    PRESENT = "present"
    ABSENT = "absent"


class Outcome(StrEnum):
    """The outcome of a plan."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    REFUSED = "refused"


class Plan(msgspec.Struct, frozen=True):
    """The plan for one thing: its state before and after (None if it does not exist), and the
    reasons if it is refused."""

    name: str
    outcome: Outcome
    before: Document | None = None
    after: Document | None = None
    reasons: tuple[str, ...] = ()


def between(name: str, before: Document | None, after: Document | None) -> Plan:
    """Returns the plan that turns `before` into `after`."""
    if before == after:
        return Plan(name, Outcome.UNCHANGED, before, after)
    if before is None:
        return Plan(name, Outcome.NEW, before, after)
    return Plan(name, Outcome.DELETED if after is None else Outcome.CHANGED, before, after)


def refused(name: str, before: Document | None, *reasons: str) -> Plan:
    return Plan(name, Outcome.REFUSED, before, before, reasons)


def declaration_options(command: F) -> F:
    """Adds the argument `declared`, and the options `dry_run`, `yes` and `as_json`."""
    argument = click.argument(
        "declared", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path)
    )
    dry_run = click.option("--dry-run", is_flag=True, help="Show the changes, and make none.")
    return argument(dry_run(yes_option(json_option(command))))


def declared_in(kind: type[T], path: Path) -> T:
    """Reads a file of declarations. Raises WrongConfiguration."""
    try:
        return load(kind, path)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None


def check_once(what: str, names: Iterable[str]) -> None:
    """Checks that the file declares each name once. Raises WrongConfiguration."""
    seen_names: set[str] = set()
    for name in names:
        if name in seen_names:
            raise WrongConfiguration(f"{what} {one_line(name)} is declared twice")
        seen_names.add(name)


def carry_out(
    what: str,
    plans: Sequence[Plan],
    do: Callable[[Plan], None],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Carries out the plans in order, and reports them. `what` names the kind of things, also in
    JSON. Raises Failed if any plan is refused."""
    refused_plans = [plan for plan in plans if plan.outcome is Outcome.REFUSED]
    deleted_names = [plan.name for plan in plans if plan.outcome is Outcome.DELETED]
    if deleted_names and not refused_plans and not dry_run and not yes:
        suffix = f" and {len(deleted_names) - _SHOWN} more" if len(deleted_names) > _SHOWN else ""
        confirm_deletion(f"{', '.join(deleted_names[:_SHOWN])}{suffix}, for good")
    finished_names: set[str] = set()
    try:
        if not refused_plans and not dry_run:
            for plan in plans:
                if plan.outcome is not Outcome.UNCHANGED:
                    do(plan)
                    finished_names.add(plan.name)
    finally:
        # Also reports changes made before a failure.
        _report(what, plans, finished_names, dry_run=dry_run, as_json=as_json)
    if refused_plans:
        verb = "would be refused" if dry_run else "refused, and nothing was changed"
        raise Failed(f"{len(refused_plans)} of {len(plans)} {what} {verb}")


def _report(
    what: str, plans: Sequence[Plan], done: set[str], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        documents = [
            {
                "name": plan.name,
                "outcome": plan.outcome,
                "applied": plan.name in done,
                "before": plan.before,
                "after": plan.after,
                "reasons": list(plan.reasons),
            }
            for plan in plans
        ]
        print_json({"dry_run": dry_run, what: documents})
        return
    for plan in plans:
        is_refused = plan.outcome is Outcome.REFUSED
        say(f"{plan.outcome:<9}  {plan.name}", colour="red" if is_refused else None)
        for line in _differences(plan):
            say(f"  {line}", colour="yellow")
        for reason in plan.reasons:
            say(f"  {reason}", colour="red")


def _differences(plan: Plan) -> list[str]:
    """The changed keys, a line for each."""
    if plan.outcome is not Outcome.CHANGED:
        return []
    before, after = _flat(plan.before or {}), _flat(plan.after or {})
    return [
        f"~ {key}: {before.get(key, 'default')} → {after.get(key, 'default')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _flat(document: Document) -> dict[str, object]:
    flat_values: dict[str, object] = {}
    for key, value in document.items():
        flat_values |= _flat(value) if isinstance(value, Mapping) else {key: value}
    return flat_values
