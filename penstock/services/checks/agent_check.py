"""`penstock check-config agent`: predicts an agent's work on its files, from the disk, the registry
and the brokers.

Also `check-config inputs`: the same for one file of its `inputs_dir`, before it is installed. Other
problems of that agent are remarks then.
"""

from pathlib import Path
from typing import Any

import msgspec

from agent.config_check import (
    InputCheck,
    TopicCheck,
    check_inputs,
    check_ledger,
    check_topics,
    topics_of,
)
from agent.configuration.config import AgentConfig
from agent.configuration.inputs import Input, check_distinct
from agent.configuration.inputs_directory import InputsDirectory
from agent.configuration.refusals import Refusal
from client.connection.brokers import Brokers
from client.errors import ClientError
from ledger.names import LEDGER_TOPIC
from penstock.config.configuration import ConfigurationError
from penstock.connections.reachability import (
    SECONDS,
    answering_broker,
    registry_failure,
    registry_within,
)
from penstock.services.agent_configuration import load_agent, load_inputs, or_rejected
from penstock.services.checks.findings import print_section
from penstock.services.checks.locks_check import broken_locks
from schemas.errors import RegistryError


class AgentCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The report. `problems` concern the agent as a whole; each input and topic has its own.
    `unanswered` lists the servers that did not answer."""

    inputs: tuple[InputCheck, ...]
    topics: tuple[TopicCheck, ...]
    refusals: tuple[Refusal, ...]
    problems: tuple[str, ...]
    unanswered: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def all_problems(self) -> list[str]:
        inputs = [
            f"input {check.name}: {problem}" for check in self.inputs for problem in check.problems
        ]
        topics = [
            f"topic {topic.name}: {problem}" for topic in self.topics for problem in topic.problems
        ]
        files = [f"{refusal.path}: {refusal.why}" for refusal in self.refusals]
        return [*files, *inputs, *topics, *self.problems, *self.unanswered]

    def all_remarks(self) -> list[str]:
        inputs = [
            f"input {check.name}: {remark}" for check in self.inputs for remark in check.remarks
        ]
        topics = [
            f"topic {topic.name}: {remark}" for topic in self.topics for remark in topic.remarks
        ]
        return [*inputs, *topics, *self.remarks]


def check_agent(config: AgentConfig, *, offline: bool) -> AgentCheck:
    """Checks the disk and, unless `offline`, the registry and brokers. Registers the schemas that
    the agent would register."""
    directory = _inputs_of(config)
    problems = [*broken_locks(config)]
    silent_servers: list[str] = []
    inputs = check_inputs(config, directory.inputs, None)
    topics: list[TopicCheck] = []
    if not offline:
        try:
            inputs = _ask_registry(config, directory.inputs, problems)
        except RegistryError as error:
            reason = registry_failure(error, config.registry_address.urls)
            silent_servers.append(f"schemas were not checked: {reason}")
        try:
            with Brokers(answering_broker(config.bootstrap), patience_seconds=SECONDS) as brokers:
                topic_names = topics_of(directory.inputs, ledger=config.ledger)
                topics = check_topics(brokers, config, topic_names)
        except ClientError as error:
            silent_servers.append(f"topics were not checked: {error}")
    return AgentCheck(
        inputs=tuple(inputs),
        topics=tuple(topics),
        refusals=directory.refusals,
        problems=tuple(problems),
        unanswered=tuple(silent_servers),
    )


def check_inputs_file(file: Path, beside: Path | None, *, offline: bool) -> AgentCheck:
    """Checks one file of `inputs_dir` together with the agent's other files; `beside` is the
    agent's configuration. The file replaces one of the same name. Raises ConfigurationError."""
    inputs = load_inputs(file)
    if beside is None:
        return check_agent(AgentConfig(inputs=inputs), offline=True)
    config = load_agent(beside, ())
    path = Path(config.inputs_dir) if config.inputs_dir else None
    other_inputs = InputsDirectory(
        path, config.inputs, lambda path: () if path.name == file.name else _read_file(path)
    )
    other_inputs.look()
    try:
        check_distinct(inputs, {entry.label for entry in other_inputs.inputs})
    except ValueError as error:
        raise ConfigurationError(str(file), "inputs", str(error)) from None
    merged_config = msgspec.structs.replace(config, inputs=inputs, inputs_dir="")
    report = check_agent(merged_config, offline=offline)
    return msgspec.structs.replace(report, remarks=report.problems, problems=())


def all_inputs(config: AgentConfig) -> tuple[Input, ...]:
    """The inputs of a configuration and of its `inputs_dir`."""
    return _inputs_of(config).inputs


def _inputs_of(config: AgentConfig) -> InputsDirectory:
    path = Path(config.inputs_dir) if config.inputs_dir else None
    directory = InputsDirectory(path, config.inputs, _read_file)
    directory.look()
    return directory


def _read_file(path: Path) -> tuple[Input, ...]:
    return or_rejected(lambda: load_inputs(path))


def _ask_registry(
    config: AgentConfig, inputs: tuple[Input, ...], problems: list[str]
) -> list[InputCheck]:
    with registry_within(config.registry_address) as registry:
        checks = check_inputs(config, inputs, registry)
        if config.ledger and (problem := check_ledger(registry)):
            problems.append(f"{LEDGER_TOPIC}: {problem}")
    return checks


def show_report(report: AgentCheck) -> None:
    """Prints the inputs and topics."""
    columns = ("input", "topic", "format", "files", "bytes", "schema")
    print_section(columns, [_input(input_check) for input_check in report.inputs])
    print_section(("topic", "partitions"), [_topic(topic) for topic in report.topics])


def _input(checked: InputCheck) -> dict[str, Any]:
    schema = (
        f"{checked.schema} v{checked.version} (id {checked.id})" if checked.version >= 0 else None
    )
    return {
        "input": checked.name,
        "topic": checked.topic,
        "format": checked.format,
        "files": checked.files,
        "bytes": checked.bytes,
        "schema": schema,
    }


def _topic(checked: TopicCheck) -> dict[str, Any]:
    return {"topic": checked.name, "partitions": checked.partitions or None}
