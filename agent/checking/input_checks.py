"""What each input would do, found out without starting an agent: its files, its schema, its fit.

The registry is asked as a running agent asks it, so that what an agent would register is registered
by this.
"""

import os
from collections.abc import Sequence

import msgspec

from agent.config import AgentConfig
from agent.config_inputs import Format, Input
from agent.errors import InputError, NoSchema
from agent.events.reader import Reader
from agent.files.compressed import has_compressed_name
from agent.files.listing import Survey
from agent.topic_schemas.finding import find, register_files
from agent.topic_schemas.values import (
    THE_LEDGERS,
    TopicSchema,
    Wanted,
    dead_letters_of,
    wanted_for,
)
from ground.printable import one_line
from schemas.registry_client import RegistryClient

_MOST_NAMED = 3


class InputCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One input. `problems` keep its lines from being shipped; `remarks` do not."""

    name: str
    topic: str
    format: str
    files: int = 0
    bytes: int = 0
    schema: str = ""  # its name; empty if it is not known
    version: int = -1
    id: int = -1
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def check_inputs(
    config: AgentConfig, inputs: Sequence[Input], registry: RegistryClient | None
) -> list[InputCheck]:
    """Without a registry nothing is said of schemas. Raises RegistryError if it does not answer."""
    checks = [_with_files(each) for each in inputs]
    pairs = zip(checks, inputs, strict=True)
    if registry is None:
        return [_with_fit(check, config, each, None) for check, each in pairs]
    return [_with_schema(check, config, each, registry) for check, each in pairs]


def check_ledger(registry: RegistryClient) -> str:
    """Why the ledger has no schema to be written with; empty if it has. Raises RegistryError."""
    return _found(registry, THE_LEDGERS, ())[1]


def _with_files(each: Input) -> InputCheck:
    listing = Survey(each.paths, each.exclude, lambda _: None).all()
    read = [sighting for sighting in listing.sightings if not has_compressed_name(sighting.path)]
    files = {sighting.identity: sighting for sighting in read}.values()
    remarks = []
    unreadable = [sighting.path for sighting in files if not os.access(sighting.path, os.R_OK)]
    if unreadable:
        remarks.append(f"you may not read {_named(unreadable)}")
    for path, error in listing.failures.items():
        remarks.append(f"{one_line(path)}: {error.strerror or error}")
    if compressed := len(listing.sightings) - len(read):
        remarks.append(f"{compressed} compressed files are not read")
    if not files and not listing.failures:
        remarks.append("no file matches now")
    return InputCheck(
        name=each.label,
        topic=each.topic,
        format=each.format.value,
        files=len(files),
        bytes=sum(sighting.size for sighting in files),
        remarks=tuple(remarks),
    )


def _with_schema(
    check: InputCheck, config: AgentConfig, each: Input, registry: RegistryClient
) -> InputCheck:
    problems = []
    remarks = list(check.remarks)
    files = (each.schema,) if each.schema and config.auto_register else ()
    if each.schema and not config.auto_register:
        remarks.append("`schema` is not registered: `auto_register` is off")
    wanted = wanted_for(each)
    schema, wrong = _found(registry, wanted, files)
    if wrong:
        problems.append(wrong)
    if wrong := _found(registry, dead_letters_of(each.topic), ())[1]:
        problems.append(wrong)
    check = msgspec.structs.replace(check, problems=tuple(problems), remarks=tuple(remarks))
    return check if schema is None else _with_fit(check, config, each, schema)


def _with_fit(
    check: InputCheck, config: AgentConfig, each: Input, found: TopicSchema | None
) -> InputCheck:
    """Whether its lines can be read as it says. Without a schema, that of plain text only."""
    if found is not None:
        name = found.schema.full_name or ""
        check = msgspec.structs.replace(check, schema=name, version=found.version, id=found.id)
    elif each.format is not Format.PLAIN:
        return check
    try:
        Reader(each, found.schema if found else None, config.times)
    except InputError as error:
        why = str(error).removeprefix(f"{each.label}: ")
        return msgspec.structs.replace(check, problems=(*check.problems, why))
    return check


def _found(
    registry: RegistryClient, wanted: Wanted, files: Sequence[str]
) -> tuple[TopicSchema | None, str]:
    wrong = ""
    try:
        register_files(registry, wanted, files)
    except NoSchema as error:
        wrong = str(error)
    try:
        return find(registry, wanted), wrong
    except NoSchema as error:
        return None, wrong or str(error)


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(one_line(path) for path in paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
