"""What an operator says to the audit, `penstock audit accept` and `retire`: an entry in `_audit`.

Ranges of offsets, events and bytes are options, written as a verdict's words have them.
"""

import getpass
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import click
from click.core import ParameterSource

from audit.api.answers import AgentRow, AgentsAnswer
from audit.configuration.config import AuditConfig
from client.connection.brokers import Brokers
from client.connection.security import Security
from ground.http.client import HttpUrl
from ground.printable import one_line
from ledger.operators import check_writable, write_accepted, write_retired
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json
from penstock.cli.time_arguments import TimeType, time_text
from penstock.config.options import configured
from penstock.connections.cluster import (
    bootstrap_option,
    brokers_security,
    connected,
    existing_topics,
)
from penstock.connections.profile import readable_profile
from penstock.connections.registry import registry_at, registry_option
from penstock.report.asking import Parameters, ask, audit_option
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress

_DEFAULT_CLUSTER: Final = "local"
F = TypeVar("F", bound=Callable[..., Any])
# With thousands separated or not, so that they can be copied.
_RANGE: Final = re.compile(r"(\d[\d,]{0,30})(?:\s*(?:-|–|to)\s*(\d[\d,]{0,30}))?", re.ASCII)
_MOST: Final = 2**62  # what the ledger can add up
_PAGE_SIZE: Final = 500
_PLACEHOLDER: Final = "REASON"  # in the commands that the audit shows
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)  # 16 bytes in base64


def _written(_context: click.Context, _option: click.Parameter, reason: str) -> str:
    if reason.strip() in {"", _PLACEHOLDER}:
        raise click.BadParameter("write the reason itself: it is kept and shown for good")
    return reason


reason_option = click.option(
    "--reason", required=True, metavar="TEXT", callback=_written, help="Why; it is shown."
)


class LedgerPlace(NamedTuple):
    """Where the `_audit` of a cluster is."""

    cluster: str
    bootstrap: str
    registry: str | RegistryAddress  # URLs alone: with the credentials of the command
    security: Security | None = None  # None: those of the command

    @property
    def credentials(self) -> Security:
        """The user's own credentials come first; those of the file are the audit's."""
        said = brokers_security(self.bootstrap)
        return said if self.security is None or said != Security() else self.security

    @contextmanager
    def opened(self) -> Iterator[tuple[Brokers, RegistryClient]]:
        with (
            connected(self.bootstrap, self.credentials) as brokers,
            registry_at(self.registry) as registry,
        ):
            yield brokers, registry


def ledger_options(command: F) -> F:
    """Adds `ledgers`: those of the configuration's clusters, or of the one that options name."""

    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The audit's file, which names its clusters, their brokers and registries.",
    )
    @click.option("--cluster", metavar="NAME", help="Only this one of them.")
    @bootstrap_option
    @registry_option
    @wraps(command)
    def with_ledgers(
        *,
        config: Path | None,
        cluster: str | None,
        bootstrap: str,
        registry: str,
        **others: Any,
    ) -> Any:
        known = readable_profile()
        if config is None and not cluster and known.names("brokers", bootstrap):
            cluster = known.value("cluster")
        one = LedgerPlace(cluster or _DEFAULT_CLUSTER, bootstrap, registry)
        ledgers = (one,) if config is None else _ledgers(config, cluster)
        return command(ledgers=ledgers, **others)

    return cast("F", with_ledgers)


def _ledgers(config: Path, cluster: str | None) -> tuple[LedgerPlace, ...]:
    if _is_given("bootstrap") or _is_given("registry"):
        raise click.UsageError("--bootstrap and --registry stand in the file that --config names")
    clusters = configured(AuditConfig, config, ()).all_clusters
    if cluster is not None and cluster not in clusters:
        raise click.UsageError(f"{config} has no cluster {cluster}, but {', '.join(clusters)}")
    return tuple(
        LedgerPlace(name, ",".join(each.brokers), each.registry_address, each.security)
        for name, each in clusters.items()
        if cluster in {None, name}
    )


def _is_given(option: str) -> bool:
    """On the command line: a default from the environment yields to a file."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def operator(security: Security) -> str:
    """Who makes the call, as far as this machine knows; and as whom the brokers let him."""
    name, login = local_account(), security.login
    return f"{name} as {login.user}" if login and login.user not in {"", name} else name


def local_account() -> str:
    if name := os.environ.get("SUDO_USER"):
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


class NumberRange(NamedTuple):
    """From the first up to but without the last."""

    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


class NumbersType(click.ParamType[NumberRange]):
    """`4711-4722`, both included; one number is itself."""

    name = "range"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NumberRange:
        first, last = _numbers(value)
        found = NumberRange(first, (first if last is None else last) + 1)
        if not _is_range(found):
            self.fail(f"{value!r} is no range like 4711-4722, nor a number, below 2^62")
        return found


class BytesType(click.ParamType[NumberRange]):
    """`8192-9216`, without the last one, as positions in a file are given."""

    name = "range"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NumberRange:
        first, end = _numbers(value)
        found = NumberRange(first, -1 if end is None else end)
        if not _is_range(found):
            self.fail(f"{value!r} is no range like 8192-9216, below 2^62")
        return found


class TopicIdType(click.ParamType[str]):
    """As reports and Kafka's tools print it."""

    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _TOPIC_ID.fullmatch(value):
            self.fail(f"{value!r} is no topic's id: 22 letters, digits, - and _")
        return value


def _is_range(found: NumberRange) -> bool:
    return 0 <= found.first < found.end <= _MOST


def _numbers(text: str) -> tuple[int, int | None]:
    """What stands before and behind the dash; -1 if it cannot be read."""
    read = _RANGE.fullmatch(text.strip())
    if read is None:
        return -1, None
    first, last = read.groups()
    return _number(first), None if last is None else _number(last)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option(
    "--topic-id",
    type=TopicIdType(),
    metavar="ID",
    help="Of a topic that was deleted; otherwise the one is meant that there is now.",
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only there.")
@click.option(
    "--offsets",
    type=NumbersType(),
    multiple=True,
    metavar="A-B",
    help="Only these, A and B included; with --partition; may be repeated.",
)
@click.option("--source", metavar="ID", help="Only this file, or this journal.")
@click.option(
    "--seqs",
    type=NumbersType(),
    multiple=True,
    metavar="A-B",
    help="Only these of its events, or entries, A and B included; may be repeated.",
)
@click.option(
    "--bytes",
    "byte_ranges",
    type=BytesType(),
    multiple=True,
    metavar="A-B",
    help="Only these of its bytes, from A up to but without B; may be repeated.",
)
@click.option("--host", metavar="NAME", help="Only what is of this host.")
@click.option(
    "--from", "from_time", type=TimeType(), metavar="TIME", help="Only windows from then on."
)
@click.option("--to", "to_time", type=TimeType(), metavar="TIME", help="Only windows before that.")
@click.option("--whole-topic", is_flag=True, help="All of it: nothing more is expected of it.")
@reason_option
@ledger_options
@json_option
def accept(
    *,
    topic: str,
    topic_id: str | None,
    partition: int | None,
    offsets: tuple[NumberRange, ...],
    source: str | None,
    seqs: tuple[NumberRange, ...],
    byte_ranges: tuple[NumberRange, ...],
    host: str | None,
    from_time: int | None,
    to_time: int | None,
    whole_topic: bool,
    reason: str,
    ledgers: Sequence[LedgerPlace],
    as_json: bool,
) -> None:
    """Accept what is missing, duplicated, changed or unknown, and will not be put right.

    The audit still shows it, with the reason, and counts it as complete. All that is given must
    apply to a fault for it to be accepted. The names are those that `penstock report` and the page
    show. A time is UTC unless it says otherwise.

    With --whole-topic nothing more is expected of the topic, until an agent ships to it. That is
    for a topic that a typo has made.

    \b
    Example:
        penstock audit accept page_views --partition 0 --offsets 4711-4722 --reason "disk broke"
        penstock audit accept page_views --source a1-7 --bytes 8192-9216 --reason "was truncated"
        penstock audit accept page_views --host web-3 --from 2026-11-20T07 --to 2026-11-20T08 \\
            --reason "its log was deleted"
        penstock audit accept page_veiws --whole-topic --reason typo
    """
    if offsets and partition is None:
        raise click.UsageError("--offsets are those of a --partition")
    if (seqs or byte_ranges) and source is None:
        raise click.UsageError("--seqs and --bytes are those of a --source")
    if seqs and byte_ranges:
        raise click.UsageError("give --seqs or --bytes, not both")
    if source is not None and not (seqs or byte_ranges):
        raise click.UsageError("give --seqs or --bytes of this --source")
    if from_time is not None and to_time is not None and from_time >= to_time:
        raise click.UsageError("--from must be before --to")
    limits = (partition, source, host, from_time, to_time)
    if whole_topic == any(each is not None for each in limits):
        raise click.UsageError(
            "say what is accepted: --whole-topic alone, or --partition, --source, --host, --from "
            "or --to"
        )
    if len(ledgers) > 1:
        names = ", ".join(each.cluster for each in ledgers)
        raise click.UsageError(f"say whose topic it is: --cluster, one of {names}")
    (ledger,) = ledgers
    given: dict[str, Any] = {
        "topic": topic,
        "topic_id": topic_id,
        "partition": -1 if partition is None else partition,
        "offsets": [{"first": each.first, "count": each.size} for each in offsets],
        "runs": [*_runs(source or "", seqs, byte_ranges)],
        "host": host or "",
        "from_time": 0 if whole_topic else from_time,
        "to_time": to_time,
        "reason": reason,
        "operator": operator(ledger.credentials),
    }
    with ledger.opened() as (brokers, registry):
        accepted = write_accepted(brokers, registry, ledger.cluster, given)
    if as_json:
        print_json({"cluster": ledger.cluster, **accepted})
        return
    words = ", ".join(_accepted_words(accepted))
    click.echo(f"{one_line(topic)} of cluster {ledger.cluster}: accepted is {words}.")
    click.echo(f"What is left is in `penstock report {one_line(topic)}`.")


def _runs(
    source: str, seqs: Sequence[NumberRange], byte_ranges: Sequence[NumberRange]
) -> Iterator[Mapping[str, Any]]:
    """By seq; or, without events, by bytes."""
    for each in seqs:
        yield {"source": source, "seq": each.first, "events": each.size}
    for each in byte_ranges:
        yield {
            "source": source,
            "seq": 0,
            "events": 0,
            "position": each.first,
            "end_position": each.end,
        }


def _accepted_words(accepted: Mapping[str, Any]) -> Iterator[str]:
    """All that must apply, as far as it was given."""
    if accepted["partition"] >= 0:
        yield f"partition {accepted['partition']}"
    for each in accepted["offsets"]:
        yield f"offsets {_shown_numbers(each['first'], each['count'])}"
    for each in accepted["runs"]:
        of = f"of source {one_line(each['source'])}"
        if each["events"]:
            yield f"events {_shown_numbers(each['seq'], each['events'])} {of}"
        else:
            yield f"bytes {each['position']:,} to {each['end_position']:,} {of}"
    if accepted["host"]:
        yield f"host {one_line(accepted['host'])}"
    if accepted["from_time"] == 0:
        yield "all of it"
    elif accepted["from_time"] is not None:
        yield f"windows from {time_text(accepted['from_time'])} UTC on"
    if accepted["to_time"] is not None:
        yield f"windows before {time_text(accepted['to_time'])} UTC"


def _shown_numbers(first: int, count: int) -> str:
    """With first and last, as they were given."""
    return f"{first:,}" if count == 1 else f"{first:,} to {first + count - 1:,}"


@click.command()
@click.argument("host")
@click.option("--agent-id", "agent", metavar="ID", help="Only this one of the agents there.")
@click.option(
    "--since",
    type=TimeType(),
    metavar="TIME",
    help="Nothing is expected from then on; without it, as far as its agents have come.",
)
@reason_option
@click.option("--dry-run", is_flag=True, help="Ask the audit, brokers and registry; write nothing.")
@audit_option
@ledger_options
@json_option
def retire(
    *,
    host: str,
    agent: str | None,
    since: int | None,
    reason: str,
    dry_run: bool,
    audit: HttpUrl,
    ledgers: Sequence[LedgerPlace],
    as_json: bool,
) -> None:
    """Expect nothing more of a host, until it is heard of again.

    What its agents have said stays as it is: events of theirs that are missing are missing. What
    lay in its files and was not shipped, nobody will know.

    Without --since the audit is asked how far the agents of this host have come. A time is UTC
    unless it says otherwise.

    \b
    Example:
        penstock audit retire web-3 --reason "disk broke" --dry-run
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
            "operator": operator(ledger.credentials),
        }
        with ledger.opened() as (brokers, registry):
            if dry_run:
                check_writable(brokers, registry)
            else:
                write_retired(brokers, registry, ledger.cluster, retired)
        told.append({"cluster": ledger.cluster, **retired})
    if as_json:
        print_json(told)
        return
    for each in told:
        click.echo(_retired_words(each, "would be" if dry_run else "is"))
    click.echo("What still waits for it is in `penstock report`.")


def _as_far_as_known(
    audit: HttpUrl, ledgers: Sequence[LedgerPlace], host: str, agent: str | None
) -> list[tuple[LedgerPlace, int]]:
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


def _agents(audit: HttpUrl, cluster: str, host: str) -> Iterator[AgentRow]:
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
        answer = ask(audit, "agents", parameters, AgentsAnswer)
        yield from answer.items
        seen += len(answer.items)
        if seen >= answer.page.total or not answer.items:
            return


def _retired_words(told: Mapping[str, Any], verb: str) -> str:
    who = one_line(told["host"])
    if told["agent"]:
        who = f"agent {one_line(told['agent'])} on {who}"
    since = time_text(told["since"]) + " UTC" if told["since"] else "the beginning"
    return (
        f"{who} {verb} retired in cluster {told['cluster']}: nothing is expected from {since} on, "
        "until it is heard of again."
    )
