"""`penstock schemas apply`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.registry_connection import registry_at, registry_option
from penstock.schema_folder_settings import folder_settings
from penstock.schema_reports import difference_documents, say, say_differences, why_no_event
from schemas.errors import InvalidSchema, SchemaError
from schemas.folder import SchemaFile, read_folder
from schemas.registration import Outcome, Plan, Planner, register
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@registry_option
@json_option
def command(*, folder: Path, dry_run: bool, registry: str, as_json: bool) -> None:
    """Register what changed in a folder of schemas: DIR/**/SUBJECT.avsc.

    All are checked first. If any would be refused, none is registered, and the exit code is 1.

    \b
    Example:
        penstock schemas apply schemas --dry-run
        penstock schemas apply schemas
    """
    files = _read(folder)
    levels = folder_settings(folder).levels(files)
    with registry_at(registry) as client:
        planner = Planner(client, levels)
        plans = [planner.plan(each) for each in files]
        refused = [each for each in plans if each.outcome is Outcome.REFUSED]
        done: dict[str, RegisteredSchema] = {}
        try:
            if not refused and not dry_run:
                _register(client, plans, done)
        finally:
            # Also what was done before the registry went away.
            _report(plans, done, dry_run=dry_run, as_json=as_json)
    if refused:
        would = "would be refused" if dry_run else "refused, and nothing was registered"
        raise Failed(f"{len(refused)} of {len(plans)} schemas {would}")


def _read(folder: Path) -> list[SchemaFile]:
    try:
        files = read_folder(folder)
    except OSError as error:
        raise Failed(f"{error.filename or folder}: {error.strerror or error}") from None
    except InvalidSchema as error:
        raise Failed(str(error)) from None
    if not files:
        raise Failed(f"{folder}: no file is named SUBJECT.avsc")
    return files


def _register(client: RegistryClient, plans: list[Plan], done: dict[str, RegisteredSchema]) -> None:
    for plan in plans:
        try:
            done[plan.file.subject] = register(client, plan, done)
        except SchemaError as error:
            raise Failed(f"{plan.file.subject}: {error}") from None


def _report(
    plans: list[Plan], done: Mapping[str, RegisteredSchema], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        print_json({"dry_run": dry_run, "schemas": [_document(each, done) for each in plans]})
        return
    for plan in plans:
        _say(plan, done.get(plan.file.subject))


def _document(plan: Plan, done: Mapping[str, RegisteredSchema]) -> dict[str, Any]:
    there = done.get(plan.file.subject) or plan.registered
    change = plan.level_change
    return {
        "file": plan.file.path,
        "subject": plan.file.subject,
        "outcome": plan.outcome,
        "applied": plan.file.subject in done,
        "version": there.version if there else None,
        "id": there.id if there else None,
        "level": {"old": change.before, "new": change.after} if change else None,
        "differences": difference_documents(plan.differences),
        "reasons": list(plan.reasons),
        "no_event": why_no_event(plan),
    }


def _say(plan: Plan, done: RegisteredSchema | None) -> None:
    there = done or plan.registered
    at = f": version {there.version}, id {there.id}" if there else ""
    if plan.outcome is Outcome.REFUSED:
        at = f" ({plan.file.path})"
    if plan.registered and plan.latest and plan.latest.version > plan.registered.version:
        at += f"; the latest is version {plan.latest.version}, and stays the latest"
    colour = "red" if plan.outcome is Outcome.REFUSED else None
    say(f"{plan.outcome:<9}  {plan.file.subject}{at}", colour=colour)
    if plan.level_change:
        before = plan.level_change.before or "no level of its own"
        say(f"  ~ compatibility: {before} → {plan.level_change.after}", colour="yellow")
    say_differences(plan.differences, indent="  ")
    for reason in plan.reasons:
        say(f"  {reason}", colour=colour)
    if (why := why_no_event(plan)) and plan.outcome is not Outcome.UNCHANGED:
        say(f"  no event for Penstock's agent and loader: {why}", colour="yellow")
