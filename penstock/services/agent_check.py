"""`penstock check-config agent`: what an agent would do with its files, asked of who would know.

And `check-config inputs`: the same of one file of its `inputs_dir`, as its team has it before it is
put there. Whatever else is wrong with that agent is only worth knowing then.
"""

from pathlib import Path
from typing import Any

import msgspec

from agent.config import AgentConfig
from agent.config_check import (
    InputCheck,
    TopicCheck,
    check_inputs,
    check_ledger,
    check_topics,
    topics_of,
)
from agent.config_inputs import Input, check_distinct
from agent.inputs_directory import InputsDirectory
from agent.status import Refusal
from client.brokers import Brokers
from client.errors import ClientError
from ledger.names import LEDGER_TOPIC
from penstock.config.configuration import ConfigurationError
from penstock.services.agent_configuration import load_agent, load_inputs, or_not_taken
from penstock.services.findings import Ask, print_findings, print_section
from penstock.services.locks_check import broken_locks
from schemas.errors import RegistryError
from schemas.registry_client import RegistryClient

_PATIENCE_SECONDS = 5.0


class AgentCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`problems` are what keeps the whole from working; each input and topic has its own."""

    inputs: tuple[InputCheck, ...]
    topics: tuple[TopicCheck, ...]
    refusals: tuple[Refusal, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    def all_problems(self) -> list[str]:
        inputs = [f"input {each.name}: {why}" for each in self.inputs for why in each.problems]
        topics = [f"topic {each.name}: {why}" for each in self.topics for why in each.problems]
        files = [f"{each.path}: {each.why}" for each in self.refusals]
        return [*files, *inputs, *topics, *self.problems]

    def all_remarks(self) -> list[str]:
        inputs = [f"input {each.name}: {remark}" for each in self.inputs for remark in each.remarks]
        topics = [f"topic {each.name}: {remark}" for each in self.topics for remark in each.remarks]
        return [*inputs, *topics, *self.remarks]


def check_agent(config: AgentConfig, ask: Ask) -> AgentCheck:
    """Looks at the disk, and asks who is to be asked; registers what an agent would register."""
    path = Path(config.inputs_dir) if config.inputs_dir else None
    directory = InputsDirectory(path, config.inputs, _read_file)
    directory.look()
    problems = [*broken_locks(config)]
    remarks: list[str] = []
    unanswered = problems if ask is Ask.ALL else remarks
    inputs = check_inputs(config, directory.inputs, None)
    topics: list[TopicCheck] = []
    if ask is not Ask.NOBODY:
        try:
            inputs = _ask_registry(config, directory.inputs, problems)
        except RegistryError as error:
            unanswered.append(f"schemas are not checked: {error}")
        try:
            with Brokers(config.bootstrap, patience_seconds=_PATIENCE_SECONDS) as brokers:
                wanted = topics_of(directory.inputs, ledger=config.ledger)
                topics = check_topics(brokers, config, wanted)
        except ClientError as error:
            unanswered.append(f"topics are not checked: {error}")
    return AgentCheck(
        inputs=tuple(inputs),
        topics=tuple(topics),
        refusals=directory.refusals,
        problems=tuple(problems),
        remarks=tuple(remarks),
    )


def check_inputs_file(file: Path, beside: Path | None, ask: Ask) -> AgentCheck:
    """One file of `inputs_dir`, beside all others of the agent whose configuration is `beside`. One
    of its own name there is what it takes the place of. Raises ConfigurationError."""
    inputs = load_inputs(file)
    if beside is None:
        return check_agent(AgentConfig(inputs=inputs), Ask.NOBODY)
    config = load_agent(beside, ())
    path = Path(config.inputs_dir) if config.inputs_dir else None
    others = InputsDirectory(
        path, config.inputs, lambda each: () if each.name == file.name else _read_file(each)
    )
    others.look()
    try:
        check_distinct(inputs, {each.label for each in others.inputs})
    except ValueError as error:
        raise ConfigurationError(str(file), "inputs", str(error)) from None
    report = check_agent(msgspec.structs.replace(config, inputs=inputs, inputs_dir=""), ask)
    remarks = (*report.remarks, *report.problems)
    return msgspec.structs.replace(report, remarks=remarks, problems=())


def _read_file(path: Path) -> tuple[Input, ...]:
    return or_not_taken(lambda: load_inputs(path))


def _ask_registry(
    config: AgentConfig, inputs: tuple[Input, ...], problems: list[str]
) -> list[InputCheck]:
    with RegistryClient(
        config.registry_address, patience_seconds=_PATIENCE_SECONDS, first_contact_seconds=0
    ) as registry:
        checks = check_inputs(config, inputs, registry)
        if config.ledger and (wrong := check_ledger(registry)):
            problems.append(f"{LEDGER_TOPIC}: {wrong}")
    return checks


def show_report(report: AgentCheck) -> None:
    """For people. What is a problem is marked so."""
    columns = ("input", "topic", "format", "files", "bytes", "schema")
    print_section(columns, [_input(each) for each in report.inputs])
    print_section(("topic", "partitions"), [_topic(each) for each in report.topics])
    print_findings(report.all_problems(), report.all_remarks())


def _input(each: InputCheck) -> dict[str, Any]:
    known = f"{each.schema} v{each.version} (id {each.id})" if each.version >= 0 else None
    return {
        "input": each.name,
        "topic": each.topic,
        "format": each.format,
        "files": each.files,
        "bytes": each.bytes,
        "schema": known,
    }


def _topic(each: TopicCheck) -> dict[str, Any]:
    return {"topic": each.name, "partitions": each.partitions or None}
