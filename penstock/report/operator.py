"""`penstock audit accept` and `retire`: an operator's statements, written as entries into `_audit`.

They are signed with the key of --signing-key or, on the audit's host, with the audit's. Ranges of
offsets, events and bytes are written as verdicts show them.
"""

import getpass
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import click
from click.core import ParameterSource

from audit.api.answers import AgentRow, AgentsAnswer, BrokersAnswer
from audit.configuration.config import AuditConfig
from client.connection.brokers import Brokers
from client.connection.security import Security
from ground.http.client import HttpUrl
from ground.printable import one_line
from ground.signatures.keys import FILE_NAME, BadKey, SigningKey, permissions_problem
from ledger.operators import check_writable, write_accepted, write_retired
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json
from penstock.cli.time_arguments import DAY_MILLIS, HOUR_MILLIS, TimeType, time_text
from penstock.config.options import configured
from penstock.connections.cluster import (
    bootstrap_option,
    brokers_security,
    connected,
    existing_topics,
)
from penstock.connections.profile import readable_profile
from penstock.connections.registry import registry_at, registry_option
from penstock.report.audit_requests import Parameters, ask, audit_option
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress

_DEFAULT_CLUSTER: Final = "local"
F = TypeVar("F", bound=Callable[..., Any])
# With thousands separated or not, so that they can be copied.
_RANGE: Final = re.compile(r"(\d[\d,]{0,30})(?:\s*(?:-|–|to)\s*(\d[\d,]{0,30}))?", re.ASCII)
_MOST: Final = 2**62  # the ledger's limit for sums
_PAGE_SIZE: Final = 500
_PLACEHOLDER: Final = "REASON"  # in the commands that the audit shows
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)  # 16 bytes in base64


def _written(_context: click.Context, _option: click.Parameter, reason: str) -> str:
    if reason.strip() in {"", _PLACEHOLDER}:
        raise click.BadParameter("replace the placeholder with a reason, which is stored and shown")
    return reason


reason_option = click.option(
    "--reason", required=True, metavar="TEXT", callback=_written, help="The reason; it is shown."
)


class LedgerPlace(NamedTuple):
    """The cluster whose `_audit` is written, its addresses and credentials, and the key that signs
    what is written."""

    cluster: str
    bootstrap: str
    registry: str | RegistryAddress  # URLs alone: with the credentials of the command
    security: Security | None = None  # None: those of the command
    key: SigningKey | None = None

    @property
    def credentials(self) -> Security:
        """The user's credentials if there are any; otherwise those of the audit's file."""
        security = brokers_security(self.bootstrap)
        return security if self.security is None or security != Security() else self.security

    @contextmanager
    def opened(self) -> Iterator[tuple[Brokers, RegistryClient]]:
        with (
            connected(self.bootstrap, self.credentials) as brokers,
            registry_at(self.registry) as registry,
        ):
            yield brokers, registry


def ledger_options(command: F) -> F:
    """Adds the parameter `ledgers`: one ledger for each cluster of --config, or the one that the
    options name."""

    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The audit's configuration file, with its clusters, their brokers and registries.",
    )
    @click.option("--cluster", metavar="NAME", help="Only this cluster.")
    @click.option(
        "--signing-key",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The private key that signs the statement; default: with --config the audit's own, if "
        "this user can read it. An audit that requires signatures rejects unsigned statements.",
    )
    @bootstrap_option
    @registry_option
    @wraps(command)
    def with_ledgers(
        *,
        config: Path | None,
        cluster: str | None,
        signing_key: Path | None,
        bootstrap: str,
        registry: str,
        **others: Any,
    ) -> Any:
        client_profile = readable_profile()
        if config is None and not cluster and client_profile.names("brokers", bootstrap):
            cluster = client_profile.value("cluster")
        ledger = LedgerPlace(cluster or _DEFAULT_CLUSTER, bootstrap, registry)
        ledgers = (ledger,) if config is None else _ledgers(config, cluster)
        if signing_key is not None:
            key = _key(signing_key)
            ledgers = tuple(ledger._replace(key=key) for ledger in ledgers)
        return command(ledgers=ledgers, **others)

    return cast("F", with_ledgers)


def _ledgers(config: Path, cluster: str | None) -> tuple[LedgerPlace, ...]:
    if _is_given("bootstrap") or _is_given("registry"):
        raise click.UsageError(
            "--config names a file with brokers and registries: omit --bootstrap and --registry"
        )
    audit = configured(AuditConfig, config, ())
    clusters = audit.all_clusters
    if cluster is not None and cluster not in clusters:
        raise click.UsageError(
            f"{config} has no cluster {cluster}; its clusters: {', '.join(clusters)}"
        )
    audit_key = Path(audit.data_dir) / FILE_NAME
    key = _key(audit_key) if os.access(audit_key, os.R_OK) else None
    return tuple(
        LedgerPlace(
            name, ",".join(settings.brokers), settings.registry_address, settings.security, key
        )
        for name, settings in clusters.items()
        if cluster in {None, name}
    )


def _key(path: Path) -> SigningKey:
    """Raises Failed."""
    try:
        key = SigningKey.of_file(path)
        problem = permissions_problem(path)
    except BadKey as error:
        problem = str(error)
    if problem:
        raise Failed(problem)
    return key


def _is_given(option: str) -> bool:
    """Whether an option is on the command line; one from the environment yields to the file."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def operator(security: Security) -> str:
    """Returns the local user who runs the command, with the login used at the brokers."""
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
    """A range of numbers; `end` is exclusive."""

    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


class NumbersType(click.ParamType[NumberRange]):
    """The type of number ranges: `4711-4722`, both inclusive, or one number."""

    name = "range"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NumberRange:
        start, end = _numbers(value)
        number_range = NumberRange(start, (start if end is None else end) + 1)
        if not _is_range(number_range):
            self.fail(f"{value!r} is neither a range such as 4711-4722 nor a number, below 2^62")
        return number_range


class BytesType(click.ParamType[NumberRange]):
    """The type of byte ranges: `8192-9216` are positions in a file; the end is exclusive."""

    name = "range"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NumberRange:
        start, end = _numbers(value)
        number_range = NumberRange(start, -1 if end is None else end)
        if not _is_range(number_range):
            self.fail(f"{value!r} is not a range such as 8192-9216, below 2^62")
        return number_range


class TopicIdType(click.ParamType[str]):
    """A topic's id, as reports and Kafka's tools print it; empty for `any`."""

    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "any":
            return ""
        if not _TOPIC_ID.fullmatch(value):
            self.fail(f"{value!r} is not a topic id, which has 22 letters, digits, - and _")
        return value


def _is_range(numbers: NumberRange) -> bool:
    return 0 <= numbers.first < numbers.end <= _MOST


def _numbers(text: str) -> tuple[int, int | None]:
    """The numbers before and after the dash; -1 if malformed."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        return -1, None
    start, end = match.groups()
    return _number(start), None if end is None else _number(end)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option(
    "--topic-id",
    type=TopicIdType(),
    metavar="ID",
    help="The id of a deleted topic, or `any` for all topics of that name, present, deleted or "
    "later; default: the present topic.",
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only this partition.")
@click.option(
    "--offsets",
    type=NumbersType(),
    multiple=True,
    metavar="A-B",
    help="Only these offsets of --partition, A and B inclusive; may be repeated.",
)
@click.option("--source", metavar="ID", help="Only this file or journal.")
@click.option(
    "--seqs",
    type=NumbersType(),
    multiple=True,
    metavar="A-B",
    help="Only these events or entries of --source, A and B inclusive; may be repeated.",
)
@click.option(
    "--bytes",
    "byte_ranges",
    type=BytesType(),
    multiple=True,
    metavar="A-B",
    help="Only these bytes of --source, A inclusive, B exclusive; may be repeated.",
)
@click.option("--host", metavar="NAME", help="Only this host.")
@click.option(
    "--landed-file",
    "file",
    metavar="URI",
    help="This file that a loader has landed; faults of such files are accepted by name alone.",
)
@click.option(
    "--from", "from_time", type=TimeType(), metavar="TIME", help="Only windows from this time on."
)
@click.option(
    "--to", "to_time", type=TimeType(), metavar="TIME", help="Only windows before this time."
)
@click.option(
    "--whole-topic", is_flag=True, help="All faults so far, and expect nothing more of the topic."
)
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
    file: str | None,
    from_time: int | None,
    to_time: int | None,
    whole_topic: bool,
    reason: str,
    ledgers: Sequence[LedgerPlace],
    as_json: bool,
) -> None:
    """Accept faults that will not be repaired: missing, duplicated, changed or unknown events.

    The audit still shows them, with the reason, and counts them as complete. All given options must
    match a fault for it to be accepted. Names are those that `penstock report` and the page show.
    Times are UTC unless they carry an offset. What is lost later is a new fault, except for events,
    bytes and files that are named; accepting cannot be undone.

    With --whole-topic, nothing more is expected of the topic until an agent ships to it again. Use
    it for a topic that a typo created. Landed files are accepted by name only.

    \b
    Example:
        penstock audit accept page_views --partition 0 --offsets 4711-4722 --reason "disk broke"
        penstock audit accept page_views --source a1-7 --bytes 8192-9216 --reason "was truncated"
        penstock audit accept page_views --host web-3 --from 2026-11-20T07 --to 2026-11-20T08 \\
            --reason "its log was deleted"
        penstock audit accept page_veiws --whole-topic --reason typo
    """
    if offsets and partition is None:
        raise click.UsageError("--offsets needs --partition")
    if (seqs or byte_ranges) and source is None:
        raise click.UsageError("--seqs and --bytes need --source")
    if seqs and byte_ranges:
        raise click.UsageError("pass either --seqs or --bytes")
    if source is not None and not (seqs or byte_ranges):
        raise click.UsageError("--source needs --seqs or --bytes")
    if from_time is not None and to_time is not None and from_time >= to_time:
        raise click.UsageError("--from must be before --to")
    restrictions = (partition, source, host, file, from_time, to_time)
    if whole_topic == any(limit is not None for limit in restrictions):
        raise click.UsageError(
            "pass --whole-topic alone, or at least one of --partition, --source, --host, "
            "--landed-file, --from and --to"
        )
    if len(ledgers) > 1:
        names = ", ".join(ledger.cluster for ledger in ledgers)
        raise click.UsageError(f"name the topic's cluster: --cluster, one of {names}")
    (ledger,) = ledgers
    statement: dict[str, Any] = {
        "topic": topic,
        "topic_id": topic_id,
        "partition": -1 if partition is None else partition,
        "offsets": [{"first": offset.first, "count": offset.size} for offset in offsets],
        "runs": [*_runs(source or "", seqs, byte_ranges)],
        "host": host or "",
        "file": file or "",
        "from_time": 0 if whole_topic else from_time,
        "to_time": to_time,
        "reason": reason,
        "operator": operator(ledger.credentials),
    }
    with ledger.opened() as (brokers, registry):
        counts = write_accepted(brokers, registry, ledger.cluster, statement, ledger.key)
    if as_json:
        print_json({"cluster": ledger.cluster, **counts})
        return
    words = ", ".join(_accepted_words(counts))
    click.echo(f"{one_line(topic)} of cluster {ledger.cluster}: accepted {words}.")
    begin = from_time or (time.time_ns() // 1_000_000 - DAY_MILLIS) // HOUR_MILLIS * HOUR_MILLIS
    start_text = time_text(begin // 1_000 * 1_000).replace(" ", "T")
    click.echo(f"`penstock report {one_line(topic)} --from {start_text}` shows what remains.")


def _runs(
    source: str, seqs: Sequence[NumberRange], byte_ranges: Sequence[NumberRange]
) -> Iterator[Mapping[str, Any]]:
    """Runs of events by seq, and runs without events by bytes."""
    for seq in seqs:
        yield {"source": source, "seq": seq.first, "events": seq.size}
    for byte_range in byte_ranges:
        yield {
            "source": source,
            "seq": 0,
            "events": 0,
            "position": byte_range.first,
            "end_position": byte_range.end,
        }


def _accepted_words(accepted: Mapping[str, Any]) -> Iterator[str]:
    """The conditions that were given, all of which must match."""
    if accepted["partition"] >= 0:
        yield f"partition {accepted['partition']}"
    for offsets in accepted["offsets"]:
        yield f"offsets {_shown_numbers(offsets['first'], offsets['count'])}"
    for run in accepted["runs"]:
        source_text = f"of source {one_line(run['source'])}"
        if run["events"]:
            yield f"events {_shown_numbers(run['seq'], run['events'])} {source_text}"
        else:
            yield f"bytes {run['position']:,} to {run['end_position']:,} {source_text}"
    if accepted["host"]:
        yield f"host {one_line(accepted['host'])}"
    if accepted["file"]:
        yield f"file {one_line(accepted['file'])}"
    if accepted["from_time"] == 0:
        yield "all faults so far"
    elif accepted["from_time"] is not None:
        yield f"windows from {time_text(accepted['from_time'])} UTC on"
    if accepted["to_time"] is not None:
        yield f"windows before {time_text(accepted['to_time'])} UTC"


def _shown_numbers(first: int, count: int) -> str:
    """The range with its first and last number, as it was given."""
    return f"{first:,}" if count == 1 else f"{first:,} to {first + count - 1:,}"


@click.command()
@click.argument("host", metavar="HOST|ROOT")
@click.option("--agent-id", "agent", metavar="ID", help="Only this agent of the host.")
@click.option(
    "--since",
    type=TimeType(),
    metavar="TIME",
    help="Expect nothing of a host from this time on; default: the time up to which its agents "
    "reported.",
)
@reason_option
@click.option(
    "--dry-run", is_flag=True, help="Check with the audit, brokers and registry; write nothing."
)
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
    """Expect nothing more of a host or a root.

    A host is expected again when it reports; a root of landed files, such as
    hdfs://namenode:8020/replayed, when something is loaded into it.

    The reports of a host's agents remain valid: their missing events stay missing. Lines in its
    files that were not shipped will remain unknown. What was loaded into a root does not count any
    more.

    Without --since, the audit says how far the agents of this host have come. Times are UTC unless
    they carry an offset.

    \b
    Example:
        penstock audit retire web-3 --reason "disk broke" --dry-run
        penstock audit retire web-3 --reason "disk broke"
        penstock audit retire web-3 --config audit.yaml --since 2026-11-20T07:02 --reason moved
        penstock audit retire hdfs://namenode:8020/replayed --reason "merged, and deleted"
    """
    if _is_root(host) and (agent is not None or since is not None):
        raise click.UsageError("a root is retired as a whole: without --agent-id and --since")
    if _is_root(host):
        since_by_ledger = _loaded_into(audit, ledgers, host)
    elif since is None:
        since_by_ledger = _as_far_as_known(audit, ledgers, host, agent)
    else:
        since_by_ledger = [(ledger, since) for ledger in ledgers]
    statements = []
    for ledger, begin in since_by_ledger:
        statement = {
            "host": host,
            "agent": agent or "",
            "since": begin,
            "reason": reason,
            "operator": operator(ledger.credentials),
        }
        with ledger.opened() as (brokers, registry):
            if dry_run:
                check_writable(brokers, registry)
            else:
                write_retired(brokers, registry, ledger.cluster, statement, ledger.key)
        statements.append({"cluster": ledger.cluster, **statement})
    if as_json:
        print_json(statements)
        return
    for statement in statements:
        click.echo(_retired_words(statement, "would be" if dry_run else "is"))
    click.echo("`penstock report` shows which topics still wait for it.")


def _is_root(name: str) -> bool:
    """Whether this is the root of a loader's files. The name of a host has no slash."""
    return "/" in name


def _loaded_into(
    audit: HttpUrl, ledgers: Sequence[LedgerPlace], root: str
) -> list[tuple[LedgerPlace, int]]:
    """The clusters of which topics are loaded into this root, each with the present time."""
    now = time.time_ns() // 1_000_000
    answer = ask(audit, "brokers", {}, BrokersAnswer)
    clusters = {row.cluster for row in answer.consumers if row.consumer == root}
    loaded = [(ledger, now) for ledger in ledgers if ledger.cluster in clusters]
    if not loaded:
        roots = sorted({one_line(row.consumer) for row in answer.consumers})
        raise Failed(
            f"the audit at {audit} expects nothing in {one_line(root)}; topics are loaded into "
            f"{', '.join(roots) or 'no root'}"
        )
    return loaded


def _as_far_as_known(
    audit: HttpUrl, ledgers: Sequence[LedgerPlace], host: str, agent: str | None
) -> list[tuple[LedgerPlace, int]]:
    """For each cluster in which the host is expected, the time up to which its agents reported."""
    lifetimes = []
    for ledger in ledgers:
        end_times = [
            max(row.until, 0)
            for row in _agents(audit, ledger.cluster, host)
            if row.host == host and agent in {None, row.agent}
        ]
        if end_times:
            lifetimes.append((ledger, min(end_times)))
    if not lifetimes:
        subject = f"host {host}" if agent is None else f"agent {agent} on host {host}"
        names = ", ".join(ledger.cluster for ledger in ledgers)
        raise Failed(
            f"the audit at {audit} does not know {subject} in cluster {names}; pass --since to "
            "retire it anyway"
        )
    return lifetimes


def _agents(audit: HttpUrl, cluster: str, host: str) -> Iterator[AgentRow]:
    """All agents that match a search for the host's name, page by page."""
    page = row_count = 0
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
        row_count += len(answer.items)
        if row_count >= answer.page.total or not answer.items:
            return


def _retired_words(statement: Mapping[str, Any], verb: str) -> str:
    subject = one_line(statement["host"])
    if _is_root(statement["host"]):
        return (
            f"{subject} {verb} retired in cluster {statement['cluster']}: nothing is expected in "
            "it until something is loaded into it again."
        )
    if statement["agent"]:
        subject = f"agent {one_line(statement['agent'])} on {subject}"
    start_text = time_text(statement["since"]) + " UTC" if statement["since"] else "the beginning"
    return (
        f"{subject} {verb} retired in cluster {statement['cluster']}: nothing is expected from "
        f"{start_text} on, "
        "until it is heard from again."
    )
