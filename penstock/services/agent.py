"""`penstock agent`: runs an agent, or shows the status of a running one."""

from functools import partial
from pathlib import Path

import click

from agent.program import run
from ground.http.client import HttpUrl
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.cli.failures import WrongConfiguration
from penstock.cli.output import json_option
from penstock.config.configuration import ConfigurationError
from penstock.config.options import configuration_options, log_format_option
from penstock.services.agent_configuration import load_agent, load_inputs, or_rejected
from penstock.services.agent_status import (
    agent_here,
    ask_status,
    listening,
    own_agent_option,
    read_status,
    show_status,
)


@click.command()
@configuration_options
@log_format_option
@click.option("--status", is_flag=True, help="Show the status of this host's agent.")
@own_agent_option
@json_option
def command(
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    log_format: LogFormat,
    status: bool,
    agent: HttpUrl | None,
    as_json: bool,
) -> int:
    """Run an agent until SIGTERM or Ctrl-C, or show the status of a running one.

    `penstock keys agent` and docs/agent-configuration.md explain the keys of the file. SIGHUP makes
    the agent read it again.

    \b
    Example:
        penstock agent --config agent.yaml
        penstock agent --status
        penstock agent --status --agent http://web-3:9464
        penstock agent --status --config agent.yaml --json
    """
    try:
        if status:
            _show(listens_at(agent, config, overrides), as_json=as_json)
            return 0
        if config is None and not overrides:
            raise click.UsageError("pass --config FILE, or every key with --set KEY=VALUE")
        if as_json:
            raise click.UsageError("--json needs --status")
        configuration = load_agent(config, overrides)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None
    log_to_stderr(log_format)
    reload = partial(or_rejected, partial(load_agent, config, overrides))
    return run(configuration, reload, lambda path: or_rejected(lambda: load_inputs(path)))


def listens_at(agent: HttpUrl | None, config: Path | None, overrides: tuple[str, ...]) -> HttpUrl:
    """The address of --agent, or of the configuration if there is one."""
    if config is None:
        if overrides:
            raise click.UsageError(
                "--set overrides the keys of a file: pass --config, or --agent URL"
            )
        return agent or agent_here()
    configuration = load_agent(config, overrides)
    return listening(
        configuration.http_host, configuration.http_port, in_tls=configuration.http.tls is not None
    )


def _show(agent: HttpUrl, *, as_json: bool) -> None:
    body = ask_status(agent)
    status = read_status(body)
    if as_json:
        click.echo(body.decode(), nl=False)
    else:
        show_status(status)
