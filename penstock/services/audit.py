"""`penstock audit`: runs the audit. Its subcommands are in `report/operator.py`."""

from pathlib import Path

import click
from msgspec.structs import replace

from audit.configuration.config import AuditConfig
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.cli.lazy_group import Lazy, LazyGroup, without
from penstock.config.options import configuration_options, configured, log_format_option
from penstock.connections.profile import SYSTEM


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    sections={
        "Commands": {
            "retire": Lazy(
                "penstock.report.operator:retire", "Expect nothing more of a host or a root."
            ),
            "accept": Lazy(
                "penstock.report.operator:accept", "Accept a fault that will not be repaired."
            ),
            "keys": Lazy(
                "penstock.report.signing_keys:keys", "List the keys that sign statements."
            ),
        }
    },
)
@configuration_options
@click.option("--count", is_flag=True, help="Count for clusters whose brokers keep no ledger.")
@log_format_option
@click.pass_context
def command(
    context: click.Context,
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    count: bool,
    log_format: LogFormat,
) -> int:
    """Run an audit until SIGTERM or Ctrl-C, or make a statement to it.

    `penstock keys audit` and docs/audit-configuration.md explain the keys of the file.

    \b
    Example:
        penstock audit --config audit.yaml
        penstock audit --count --config audit.yaml
        penstock audit retire web-3 --reason "disk broke"
        penstock audit accept page_views --host web-3 --from 2026-11-20 --reason "disk broke"
    """
    if context.invoked_subcommand is not None:
        if config or overrides or count:
            raise click.UsageError(f"pass options after {context.invoked_subcommand}")
        return 0
    configuration = configured(AuditConfig, config, overrides)
    if config is not None:
        configuration = with_own_file(configuration, config)
    log_to_stderr(log_format)
    try:
        from penstock.services.audit_service import run, run_counter  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise without(missing, "penstock audit", "audit") from missing
    return run_counter(configuration) if count else run(configuration)


def with_own_file(loaded: AuditConfig, config: Path, profile: Path = SYSTEM) -> AuditConfig:
    """Adds the audit's file to the commands that it shows, unless its configuration names another
    or this host has a profile that operators may read."""
    if loaded.commands.audit or profile.exists():
        return loaded
    return replace(loaded, commands=replace(loaded.commands, audit=str(config.absolute())))
