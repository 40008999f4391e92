"""`penstock check-config`: validates a configuration file, and predicts its effect."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

from audit.configuration.config import AuditConfig
from broker.configs.config import BrokerConfig
from client.connection.bootstrap import Bootstrap
from ground.printable import one_line
from loader.config import LoaderConfig
from mirror.config import MirrorConfig
from penstock.cli.failures import Failed, WrongConfiguration, missing_extra
from penstock.cli.output import json_option, print_json, print_table, say
from penstock.config.client_profile import ClientProfile
from penstock.config.configuration import ConfigurationError
from penstock.config.options import configured
from penstock.config.reference import KINDS
from penstock.connections.reachability import broker_problem, registry_problem, zookeeper_problem
from penstock.services.agent_configuration import load_agent
from penstock.services.checks.audit_check import check_audit
from penstock.services.checks.audit_check import show_report as show_audit
from penstock.services.checks.locks_check import broken_locks
from penstock.services.checks.mirror_check import check_mirror
from penstock.services.checks.mirror_check import show_report as show_mirror
from penstock.services.checks.signing_key_check import fingerprint, key_problem
from registry.config import RegistryConfig
from schemas.remote.address import RegistryAddress

_SECRET = ("secret", "password", "token")
_SECRET_NAMES = {"key", "webhook", "url"}  # the URL of a webhook often holds one


class Report(Protocol):
    """The report on one file; its fields are those of the output of `--json`."""

    def all_problems(self) -> list[str]: ...

    def all_remarks(self) -> list[str]: ...


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was checked. `effective` is the configuration without secrets, None for a file of
    inputs; `show` prints the report apart from problems and remarks. `signing_key` is the
    fingerprint of the program's key, empty before its first start, and `key_problem` why the
    program would reject it."""

    report: Report
    effective: dict[str, Any] | None
    show: Callable[[Any], None]
    signing_key: str = ""
    key_problem: str = ""


class PlainCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A report with problems only."""

    problems: tuple[str, ...]

    def all_problems(self) -> list[str]:
        return [*self.problems]

    def all_remarks(self) -> list[str]:
        return []


@click.command()
@click.argument("kind", type=click.Choice([*KINDS, "inputs"]), metavar="KIND")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--offline",
    is_flag=True,
    envvar="PENSTOCK_OFFLINE",
    show_envvar=True,
    help="Check the file only: connect to no server.",
)
@click.option(
    "--spark",
    is_flag=True,
    help="With `loader`: start Spark, and create test files below the root.",
)
@click.option(
    "--beside",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="AGENT.YAML",
    help="With `inputs`: the configuration of the agent that will follow them.",
)
@click.option("--show", is_flag=True, help="Also print the resulting configuration.")
@json_option
def command(
    kind: str,
    file: Path,
    *,
    offline: bool,
    spark: bool,
    beside: Path | None,
    show: bool,
    as_json: bool,
) -> None:
    """Validate a program's configuration file, and check that its servers answer.

    KIND is agent, broker, registry, loader, audit, mirror or zookeeper; client for a profile of the
    commands; or inputs for a file of an agent's inputs_dir.

    Lists all mistakes in the file, each with line and column; unusable files with certificates,
    users, tokens or passwords; and brokers, registries and ZooKeeper that do not answer within
    three seconds. With --offline, as in CI, no server is contacted. No program is started, and
    secrets are not shown.

    For an agent, it shows for each input the number of matching files and the schema of its lines,
    and whether the topics are configured for it. Schemas that the agent would register at its start
    are registered.

    For inputs, it shows the same before the file is installed; with --beside, also whether its
    names are free, and what the registry and the brokers of that agent say.

    For a loader, it shows which topics become which tables, with which columns. With --spark, it
    starts Spark and tries the root.

    For an audit, it shows the ledgers that it would read, and the number of hosts in its inventory.

    For a mirror, it shows the topics that would be copied, their names at the target, and what
    would be created or altered there.

    Exit code 1: there are problems, or a server does not answer; 2: the file has mistakes.

    \b
    Example:
        penstock check-config broker broker.yaml
        penstock check-config broker broker.yaml --offline --show
        penstock check-config agent /etc/penstock/agent.yaml
        penstock check-config inputs shop.yaml --beside /etc/penstock/agent.yaml
        penstock check-config loader loader.yaml --spark
    """
    if beside is not None and kind != "inputs":
        raise click.UsageError("--beside applies only to the kind `inputs`")
    if spark and (kind != "loader" or offline):
        raise click.UsageError("--spark applies only to the kind `loader`, and excludes --offline")
    try:
        match kind:
            case "agent":
                result = _agent(file, offline=offline)
            case "inputs":
                result = _inputs(file, beside, offline=offline)
            case "loader":
                result = _loader(file, offline=offline, spark=spark)
            case "audit":
                audit = configured(AuditConfig, file, ())
                result = _checked(audit, check_audit(audit, offline=offline), show_audit)
            case "mirror":
                mirror = configured(MirrorConfig, file, ())
                result = _checked(mirror, check_mirror(mirror, offline=offline), show_mirror)
            case _:
                config = configured(KINDS[kind], file, ())
                unanswered = () if offline else _unanswered(config)
                problems = (*broken_locks(config), *unanswered)
                result = _checked(config, PlainCheck(problems=problems), lambda _: None)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None
    _print(file, result, show=show, as_json=as_json)


def _agent(file: Path, *, offline: bool) -> Checked:
    # Only an agent's host needs what it stands on.
    from penstock.services.checks.agent_check import check_agent, show_report  # noqa: PLC0415

    config = load_agent(file, ())
    return _checked(config, check_agent(config, offline=offline), show_report)


def _inputs(file: Path, beside: Path | None, *, offline: bool) -> Checked:
    from penstock.services.checks.agent_check import check_inputs_file, show_report  # noqa: PLC0415

    report = check_inputs_file(file, beside, offline=offline)
    return Checked(report=report, effective=None, show=show_report)


def _loader(file: Path, *, offline: bool, spark: bool) -> Checked:
    config = configured(LoaderConfig, file, ())
    # Only a loader's host needs Spark.
    try:
        from penstock.services.load.check import check_loader, show_report  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        raise Failed(missing_extra("checking a loader", package, "loader")) from None

    report = check_loader(config, offline=offline, with_spark=spark)
    return _checked(config, report, show_report)


def _checked(config: msgspec.Struct, report: Report, show: Callable[[Any], None]) -> Checked:
    return Checked(
        report=report,
        effective=_effective(config),
        show=show,
        signing_key=fingerprint(config),
        key_problem=key_problem(config),
    )


def _unanswered(config: object) -> Iterator[str]:
    """A line for each server that the program needs and that does not answer."""
    problems = []
    match config:
        case BrokerConfig():
            if not config.embeds_zookeeper:
                problems.append(zookeeper_problem(config.zookeeper))
            if config.registry:
                problems.append(registry_problem(config.registry_address))
        case RegistryConfig():
            problems.append(broker_problem(config.bootstrap))
            if config.zookeeper:
                problems.append(zookeeper_problem(config.zookeeper))
        case ClientProfile():
            if config.brokers:
                brokers = Bootstrap.of(",".join(config.brokers), config.security)
                problems.append(broker_problem(brokers))
            if config.registry:
                address = RegistryAddress(config.registry, config.registry_security)
                problems.append(registry_problem(address))
            if config.zookeeper:
                problems.append(zookeeper_problem(config.zookeeper))
    yield from filter(None, problems)


def _print(file: Path, checked: Checked, *, show: bool, as_json: bool) -> None:
    report = checked.report
    problems = [*report.all_problems(), *filter(None, [checked.key_problem])]
    if as_json:
        document = msgspec.to_builtins(report)
        if checked.effective is not None:
            document = {
                "configuration": checked.effective,
                "signing_key": checked.signing_key or None,
                **document,
            }
        print_json(document)
    else:
        if not problems:
            say(f"{file}: valid")
        for remark in report.all_remarks():
            print(one_line(f"note: {remark}"))
        if checked.signing_key:
            print(f"signing key: {checked.signing_key}")
        checked.show(report)
        if show and checked.effective is not None:
            print()
            _show(checked.effective)
    if problems:
        raise Failed(*(f"{file}: {problem}" for problem in problems))


def _effective(loaded: msgspec.Struct) -> dict[str, Any]:
    document: dict[str, Any] = _without_secrets(msgspec.to_builtins(loaded, enc_hook=str))
    return document


def _show(effective: dict[str, Any]) -> None:
    rows = [{"key": key, "value": value} for key, value in _flat(effective)]
    print_table(("key", "value"), rows)


def _without_secrets(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            key: "…" if value and _is_secret(key) else _without_secrets(value)
            for key, value in document.items()
        }
    if isinstance(document, list | tuple):
        return [_without_secrets(item) for item in document]
    return document


def _is_secret(key: str) -> bool:
    return key in _SECRET_NAMES or any(word in key for word in _SECRET)


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Keys and values, with the keys as `--set` takes them."""
    rows: list[tuple[str, Any]] = []
    for key, value in document.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, value))
    return rows
