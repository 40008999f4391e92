"""`penstock check-config`."""

from pathlib import Path
from typing import Any

import click
import msgspec

from audit.config import AuditConfig
from loader.config import LoaderConfig
from mirror.config import MirrorConfig
from penstock.cli.failures import Failed, WrongConfiguration, missing_extra
from penstock.cli.output import json_option, print_json, print_table
from penstock.config.configuration import ConfigurationError
from penstock.config.options import configured
from penstock.config.reference import KINDS
from penstock.services.agent_configuration import load_agent
from penstock.services.audit_check import check_audit, show_report
from penstock.services.findings import Ask, print_findings
from penstock.services.locks_check import broken_locks
from penstock.services.mirror_check import check_mirror
from penstock.services.mirror_check import show_report as show_mirror

_SECRET = ("secret", "password", "token")
_SECRET_NAMES = {"key", "webhook"}  # a webhook's URL often holds one


@click.command()
@click.argument("kind", type=click.Choice([*KINDS, "inputs"]))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--offline", is_flag=True, help="Look at this machine only, and connect to no server."
)
@click.option("--online", is_flag=True, help="Registry and brokers must answer.")
@click.option(
    "--beside",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="AGENT.YAML",
    help="With `inputs`: the configuration of the agent that is to follow them.",
)
@json_option
def command(
    kind: str, file: Path, *, offline: bool, online: bool, beside: Path | None, as_json: bool
) -> None:
    """Validate the configuration file of a program, and show what it comes to.

    Nothing is started. Values of secrets are not shown.

    Of an agent, it says what each input would do: how many files it means now, and, as far as
    registry and brokers answer, with which schema its lines would be written and whether the topics
    are configured for it. What an agent would register when it starts is registered.

    Of `inputs`, a file for an agent's inputs_dir, it says the same before the file is there; with
    --beside also whether its names are free, and what registry and brokers of that agent say.

    Of a loader, it says which topics become which tables, with which columns. With --online, Spark
    is started, and the root tried.

    Of an audit, it says which ledgers it would read, and how many hosts its inventory has.

    Of a mirror, it says which topics would be copied, under which names, and what would be created
    or altered at the target.

    Of each, it says which files with certificates, users, tokens and passwords cannot be used.

    Exit code 1: there are problems.

    \b
    Example:
        penstock check-config broker broker.yaml
        penstock check-config agent /etc/penstock/agent.yaml
        penstock check-config agent agent.yaml --offline
        penstock check-config inputs shop.yaml --beside /etc/penstock/agent.yaml
        penstock check-config loader loader.yaml --online
        penstock check-config audit audit.yaml
        penstock check-config mirror mirror.yaml --online
    """
    if offline and online:
        raise click.UsageError("give --offline or --online, not both")
    if beside is not None and kind != "inputs":
        raise click.UsageError("--beside is for inputs")
    if kind == "inputs" and online and beside is None:
        raise click.UsageError("--online needs --beside, which names the registry and brokers")
    if kind == "inputs":
        ask = Ask.NOBODY if offline else Ask.ALL if online else Ask.WHO_ANSWERS
        _check_inputs(file, beside, ask, as_json=as_json)
        return
    if kind in _CHECKED:
        ask = Ask.NOBODY if offline else Ask.ALL if online else Ask.WHO_ANSWERS
        _CHECKED[kind](file, ask, as_json=as_json)
        return
    if offline or online:
        raise click.UsageError(
            "--offline and --online are for agent, inputs, loader, audit and mirror: checks of the "
            "others connect to no server"
        )
    config = configured(KINDS[kind], file, ())
    problems = [*broken_locks(config)]
    if as_json:
        print_json({"configuration": _effective(config), "problems": problems})
    else:
        _show(_effective(config))
        print_findings(problems, ())
    _end(file, problems)


def _check_agent(file: Path, ask: Ask, *, as_json: bool) -> None:
    # Only an agent's host needs what it stands on.
    from penstock.services.agent_check import check_agent, show_report  # noqa: PLC0415

    try:
        config = load_agent(file, ())
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None
    report = check_agent(config, ask)
    effective = _effective(config)
    if as_json:
        print_json({"configuration": effective, **msgspec.to_builtins(report)})
    else:
        _show({key: value for key, value in effective.items() if key != "inputs"})
        show_report(report)
    _end(file, report.all_problems())


def _check_inputs(file: Path, beside: Path | None, ask: Ask, *, as_json: bool) -> None:
    from penstock.services.agent_check import check_inputs_file, show_report  # noqa: PLC0415

    try:
        report = check_inputs_file(file, beside, ask)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        show_report(report)
    _end(file, report.all_problems())


def _check_loader(file: Path, ask: Ask, *, as_json: bool) -> None:
    config = configured(LoaderConfig, file, ())
    # Only a loader's host needs Spark.
    try:
        from penstock.services.load.check import check_loader, show_report  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        raise Failed(missing_extra("checking a loader", package, "loader")) from None

    report = check_loader(config, ask)
    effective = _effective(config)
    if as_json:
        print_json({"configuration": effective, **msgspec.to_builtins(report)})
    else:
        _show(effective)
        show_report(report)
    _end(file, report.all_problems())


def _check_audit(file: Path, ask: Ask, *, as_json: bool) -> None:
    config = configured(AuditConfig, file, ())
    report = check_audit(config, ask)
    effective = _effective(config)
    if as_json:
        print_json({"configuration": effective, **msgspec.to_builtins(report)})
    else:
        _show(effective)
        show_report(report)
    _end(file, report.all_problems())


def _check_mirror(file: Path, ask: Ask, *, as_json: bool) -> None:
    config = configured(MirrorConfig, file, ())
    report = check_mirror(config, ask)
    effective = _effective(config)
    if as_json:
        print_json({"configuration": effective, **msgspec.to_builtins(report)})
    else:
        _show(effective)
        show_mirror(report)
    _end(file, list(report.problems))


_CHECKED = {
    "agent": _check_agent,
    "loader": _check_loader,
    "audit": _check_audit,
    "mirror": _check_mirror,
}


def _end(file: Path, problems: list[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise Failed(f"{file}: {problems[0]}{more}")


def _effective(loaded: msgspec.Struct) -> dict[str, Any]:
    effective: dict[str, Any] = _without_secrets(msgspec.to_builtins(loaded, enc_hook=str))
    return effective


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
    """The keys as `--set` takes them, with their values."""
    rows: list[tuple[str, Any]] = []
    for key, value in document.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, value))
    return rows
