"""Plans for the things that a file declares, and their output.

Rule 1: all is planned before anything is done, and the plan is what `--dry-run` shows.
Rule 2: if anything would be refused, nothing is done.
Rule 3: nothing is deleted that the file does not call absent, unless the command was told that the
file names all there may be; and then somebody has said yes.

A run that is cut off has done a part of it, and its next run does the rest.
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
Document = Mapping[str, Any]  # what json can write
_SHOWN: Final = 5  # names in a question


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
    """Of one thing: as it is and as it will be, None where it is not there; if it is refused, for
    which reasons."""

    name: str
    outcome: Outcome
    before: Document | None = None
    after: Document | None = None
    reasons: tuple[str, ...] = ()


def between(name: str, before: Document | None, after: Document | None) -> Plan:
    """Of something that becomes `after`."""
    if before == after:
        return Plan(name, Outcome.UNCHANGED, before, after)
    if before is None:
        return Plan(name, Outcome.NEW, before, after)
    return Plan(name, Outcome.DELETED if after is None else Outcome.CHANGED, before, after)


def refused(name: str, before: Document | None, *reasons: str) -> Plan:
    return Plan(name, Outcome.REFUSED, before, before, reasons)


def declaration_options(command: F) -> F:
    """Adds the argument `declared`, and `dry_run`, `yes` and `as_json`."""
    argument = click.argument(
        "declared", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path)
    )
    dry = click.option("--dry-run", is_flag=True, help="Show the changes, and make none.")
    return argument(dry(yes_option(json_option(command))))


def declared_in(kind: type[T], path: Path) -> T:
    """What the file says."""
    try:
        return load(kind, path)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None


def check_once(what: str, names: Iterable[str]) -> None:
    """Raise if the file names something twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise WrongConfiguration(f"{what} {one_line(name)} is declared twice")
        seen.add(name)


def carry_out(
    what: str,
    plans: Sequence[Plan],
    do: Callable[[Plan], None],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Does what is planned, one after the other, and says so; `what` is their name in JSON."""
    bad = [plan for plan in plans if plan.outcome is Outcome.REFUSED]
    gone = [plan.name for plan in plans if plan.outcome is Outcome.DELETED]
    if gone and not bad and not dry_run and not yes:
        more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
        confirm_deletion(f"{', '.join(gone[:_SHOWN])}{more}, for good")
    done: set[str] = set()
    try:
        if not bad and not dry_run:
            for plan in plans:
                if plan.outcome is not Outcome.UNCHANGED:
                    do(plan)
                    done.add(plan.name)
    finally:
        # Also what was done before something failed.
        _report(what, plans, done, dry_run=dry_run, as_json=as_json)
    if bad:
        would = "would be refused" if dry_run else "refused, and nothing was changed"
        raise Failed(f"{len(bad)} of {len(plans)} {what} {would}")


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
    """Of what is changed, key by key."""
    if plan.outcome is not Outcome.CHANGED:
        return []
    before, after = _flat(plan.before or {}), _flat(plan.after or {})
    return [
        f"~ {key}: {before.get(key, 'default')} → {after.get(key, 'default')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _flat(document: Document) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in document.items():
        found |= _flat(value) if isinstance(value, Mapping) else {key: value}
    return found
