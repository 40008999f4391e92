"""`penstock audit retire`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from audit.http.answers import AgentRow, Agents
from penstock.audit_address import Parameters, ask, audit_option
from penstock.audit_operator import Ledger, ledger_options, operator, write_statement
from penstock.failures import Failed
from penstock.http_address import HttpAddress
from penstock.json_option import json_option
from penstock.output import one_line, print_json
from penstock.time_arguments import TimeType, time_text

_PAGE_SIZE: Final = 500


@click.command()
@click.argument("host")
@click.option("--agent-id", "agent", metavar="ID", help="Only this one of the agents there.")
@click.option(
    "--since",
    type=TimeType(),
    metavar="TIME",
    help="Nothing is expected from then on; without it, as far as its agents have come.",
)
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is shown.")
@audit_option
@ledger_options
@json_option
def command(
    *,
    host: str,
    agent: str | None,
    since: int | None,
    reason: str,
    audit: HttpAddress,
    ledgers: Sequence[Ledger],
    as_json: bool,
) -> None:
    """Expect nothing more of a host, until it is heard of again.

    What its agents have said stays as it is: events of theirs that are missing are missing. What
    lay in its files and was not shipped, nobody will know.

    Without --since the audit is asked how far the agents of this host have come. A time is UTC
    unless it says otherwise.

    \b
    Example:
        penstock audit retire web-3 --reason "disk broke"
        penstock audit retire web-3 --config audit.yaml --since 2026-11-20T07:02 --reason moved
    """
    if since is None:
        meant = _as_far_as_known(audit, ledgers, host, agent)
    else:
        meant = [(ledger, since) for ledger in ledgers]
    told = []
    for ledger, until in meant:
        retired = {
            "host": host,
            "agent": agent or "",
            "since": until,
            "reason": reason,
            "operator": operator(),
        }
        with ledger.opened() as (brokers, registry):
            write_statement(brokers, registry, ledger.cluster, {"retired": [retired]})
        told.append({"cluster": ledger.cluster, **retired})
    if as_json:
        print_json(told)
        return
    for each in told:
        click.echo(_words(each))
    click.echo("What still waits for it is in `penstock report`.")


def _as_far_as_known(
    audit: HttpAddress, ledgers: Sequence[Ledger], host: str, agent: str | None
) -> list[tuple[Ledger, int]]:
    """For each cluster in which that host is expected, up to when its agents are there."""
    found = []
    for ledger in ledgers:
        untils = [
            max(row.until, 0)
            for row in _agents(audit, ledger.cluster, host)
            if row.host == host and agent in {None, row.agent}
        ]
        if untils:
            found.append((ledger, min(untils)))
    if not found:
        what = f"host {host}" if agent is None else f"agent {agent} on host {host}"
        where = ", ".join(each.cluster for each in ledgers)
        raise Failed(f"the audit at {audit} knows no {what} in cluster {where}; or say --since")
    return found


def _agents(audit: HttpAddress, cluster: str, host: str) -> Iterator[AgentRow]:
    """All pages of those whose name is like this one."""
    page = seen = 0
    while True:
        page += 1
        parameters: Parameters = {
            "cluster": cluster,
            "search": host,
            "page": page,
            "size": _PAGE_SIZE,
        }
        answer = ask(audit, "agents", parameters, Agents)
        yield from answer.items
        seen += len(answer.items)
        if seen >= answer.page.total or not answer.items:
            return


def _words(told: Mapping[str, Any]) -> str:
    who = one_line(told["host"])
    if told["agent"]:
        who = f"agent {one_line(told['agent'])} on {who}"
    since = time_text(told["since"]) + " UTC" if told["since"] else "the beginning"
    return (
        f"{who} is retired in cluster {told['cluster']}: nothing is expected from {since} on, "
        "until it is heard of again."
    )
