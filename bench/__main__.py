"""`python -m bench`: compares brokers, registries, agents and loaders; prints medians and ratios.

`--compare` and `--counts` count the instructions of hot paths instead (bench/counted/).

All files are in one temporary directory, which is removed at the end; the brokers stop, too.
"""

import contextlib
import importlib.metadata
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace
from rich.console import Console

from bench.compared_servers import ComparedServers
from bench.counted.report import compare, show
from bench.figures import report, results
from bench.figures.profile import FULL, QUICK, Results, Scale
from bench.figures.rounds import measure
from bench.loads.child_process import allow_most_open_files
from bench.loads.requests import AnswerError
from bench.peers import PEERS
from bench.profiles import PROFILES, profiles_named
from bench.servers.brokers import KINDS, PENSTOCK, version
from bench.servers.loaders import SPARK
from bench.servers.mirrors import MIRROR_MAKER
from bench.servers.registry_servers import Registry, elsewhere
from bench.spark.spark_peer import VERSION as SPARK_VERSION
from harness.kafka.apache_kafka import VERSION as KAFKA_VERSION
from harness.processes.server_process import ServerFailed

_WIDTH = 280  # wide enough that tables in files do not wrap


def _other(url: str | None, pid: int | None) -> Registry | None:
    if url is None:
        if pid is not None:
            raise click.BadParameter("--beside-pid requires --beside")
        return None
    try:
        return elsewhere(url, pid)
    except (ValueError, OSError, AnswerError) as error:
        raise click.BadParameter(f"--beside {url}: {error}") from None


def _chosen(names: tuple[str, ...]) -> list[str]:
    selected_names: list[str] = []
    for name in names:
        profiles = profiles_named(name)
        if not profiles:
            raise click.BadParameter(f"unknown profile {name!r}; available: {', '.join(PROFILES)}")
        selected_names += profiles
    return list(dict.fromkeys(selected_names or PROFILES))


def _list_profiles() -> None:
    for profile in PROFILES.values():
        print(f"{profile.name:20} {profile.about}")


@click.command()
@click.argument("names", nargs=-1, metavar="[PROFILE]...")
@click.option("--list", "only_list", is_flag=True, help="List the profiles and exit.")
@click.option("--quick", is_flag=True, help="Run for seconds instead of minutes: a smoke test.")
@click.option("--rounds", type=click.IntRange(1), help="Default: 3, or 1 with --quick.")
@click.option(
    "--broker", "brokers", multiple=True, type=click.Choice([*KINDS, *PEERS]), help="Only this one."
)
@click.option(
    "--beside", metavar="URL", help="Another registry to measure; it keeps what is registered."
)
@click.option("--beside-pid", type=int, help="The process ID of that registry, to measure it.")
@click.option("--case", "cases", multiple=True, help="Run only cases whose names contain this.")
@click.option(
    "--kept-hours", type=click.IntRange(2, 168), help="Hours in the audit's database. Default: 24."
)
@click.option("--hourly-topics", type=click.IntRange(1), help="Topics of a month. Default: 50.")
@click.option("--hourly-hours", type=click.IntRange(1), help="Hours of a month. Default: 720.")
@click.option(
    "--missed-gb", type=click.FloatRange(0, min_open=True), help="A follower's lag. Default: 1."
)
@click.option(
    "--compare",
    "compares",
    is_flag=True,
    help="Compare instruction counts of two commits, or of one and this tree.",
)
@click.option("--counts", is_flag=True, help="Count instructions; compare with the accepted ones.")
@click.option("--accept-counts", is_flag=True, help="Count, and write bench/counts.json.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="File for all samples. Default: a new file in bench/results, or none with --quick.",
)
@click.option("--markdown", type=click.Path(path_type=Path), help="Write tables to this file.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/var/tmp"),
    show_default=True,
    help="A directory on the disk to measure; the recovery profile needs 30 GB.",
)
def main(  # noqa: PLR0917 -- an argument for each option
    names: tuple[str, ...],
    only_list: bool,
    quick: bool,
    rounds: int | None,
    brokers: tuple[str, ...],
    beside: str | None,
    beside_pid: int | None,
    cases: tuple[str, ...],
    kept_hours: int | None,
    hourly_topics: int | None,
    hourly_hours: int | None,
    missed_gb: float | None,
    compares: bool,
    counts: bool,
    accept_counts: bool,
    json_file: Path | None,
    markdown: Path | None,
    directory: Path,
) -> None:
    """Measures PROFILEs (default: all) on Penstock and Apache Kafka in alternating rounds.

    `cluster` runs the profiles of three-broker clusters with three replicas.
    `registry` runs the profiles of the registry: Penstock's, and the one of --beside.
    `agent` runs the profiles of the agent and of its installed peers; --broker can name one of
    these as well.
    `loader` is compared with Spark's own Kafka source unless --broker is given.
    `mirror` is compared with MirrorMaker 2 unless --broker is given.
    `audit` runs the profiles of the audit and what each is compared with.

    With --compare and --counts, --case selects paths. `--compare A B` takes commits in place of
    PROFILEs.
    """
    if only_list:
        _list_profiles()
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the cleanup
    if compares:
        compare(names, cases, json_file)
        return
    if counts or accept_counts:
        show(cases, json_file, accept=accept_counts)
        return
    selected_names = _chosen(names)
    allow_most_open_files()
    registry = _other(beside, beside_pid)
    scale = QUICK if quick else FULL
    if kept_hours is not None:
        scale = replace(scale, kept_hours=kept_hours)
    if hourly_topics is not None:
        scale = replace(scale, hourly_topics=hourly_topics)
    if hourly_hours is not None:
        scale = replace(scale, hourly_hours=hourly_hours)
    if missed_gb is not None:
        scale = replace(scale, missed_bytes=int(missed_gb * 1e9))
    circumstances = results.circumstances(directory, {})
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory) as work:
        servers = ComparedServers(Path(work), brokers, registry, scale)
        results_of_profile = _measure(
            selected_names,
            servers,
            scale,
            rounds=rounds or (1 if quick else 3),
            directory=Path(work),
            cases=cases,
            console=console,
        )
        circumstances["versions"] = _versions(results_of_profile, registry)
    lines = _as_lines(circumstances)
    if json_file is not None or not quick:
        profiles = {result.profile.name: report.as_json(result) for result in results_of_profile}
        result_file = results.write(circumstances, json_file, profiles=profiles)
        lines["results file"] = str(result_file)
    if markdown is not None:
        description = "".join(f"- {key}: `{value}`\n" for key, value in lines.items())
        markdown.write_text("\n".join([description, *map(report.markdown, results_of_profile)]))
    _end(console, results_of_profile, lines)


def _measure(
    profiles: list[str],
    servers: ComparedServers,
    scale: Scale,
    *,
    rounds: int,
    directory: Path,
    cases: tuple[str, ...],
    console: Console,
) -> list[Results]:
    """Measure the profiles in turn; print each table when it is complete."""
    files = directory / "files"
    files.mkdir()
    all_results: list[Results] = []
    for name in profiles:
        with contextlib.ExitStack() as stack:
            servers_by_name = servers.of(name, stack)
            if not servers_by_name:
                print(f"{name}: no server to measure", file=sys.stderr)
                continue
            print(name, file=sys.stderr)
            try:
                results_of_profile = measure(
                    PROFILES[name],
                    servers_by_name,
                    scale,
                    rounds=rounds,
                    directory=directory,
                    files=files,
                    only=cases,
                )
            except ServerFailed as failure:
                raise click.ClickException(f"a server did not start: {failure}") from None
        all_results.append(results_of_profile)
        console.print(f"{name}: {results_of_profile.profile.about}", style="bold")
        console.print(report.table(results_of_profile))
    return all_results


def _versions(results: list[Results], registry: Registry | None) -> dict[str, str]:
    """The versions of the servers in the results."""
    servers = {PENSTOCK, *(name for result in results for name in result.brokers)}
    versions = {name: version(name) for name in KINDS if name in servers}
    versions |= {name: peer.version() for name, peer in PEERS.items() if name in servers}
    if any(result.profile.name == "loader" for result in results):
        versions["PySpark"] = importlib.metadata.version("pyspark")
        versions[SPARK] = SPARK_VERSION
    if MIRROR_MAKER in servers:
        versions[MIRROR_MAKER] = KAFKA_VERSION
    if registry is not None:
        versions[registry.name] = f"{registry.host}:{registry.port}"
    return versions


def _as_lines(circumstances: Mapping[str, object]) -> dict[str, str]:
    """Flatten nested mappings into one line of text for each value."""
    lines: dict[str, str] = {}
    for key, value in circumstances.items():
        if isinstance(value, Mapping):
            lines |= _as_lines(value)
        else:
            lines[key] = str(value)
    return lines


def _end(
    console: Console, results_of_profile: list[Results], circumstances: Mapping[str, str]
) -> None:
    for key, value in circumstances.items():
        console.print(f"{key:14} {value}")
    verdicts = [verdict for verdict in report.verdicts(results_of_profile) if verdict is not None]
    if verdicts:
        console.print(f"{'goals':14} {sum(verdicts)} of {len(verdicts)} met")
    failure_count = report.failures(results_of_profile)
    if failure_count:
        console.print(f"{'failures':14} {failure_count}")
        sys.exit(1)


if __name__ == "__main__":
    main()
