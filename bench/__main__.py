"""`python -m bench`: brokers, registries, agents, loaders side by side: medians and ratios.

With `--compare` and `--counts`: instructions that hot paths take (bench/counted/).

Everything it makes lies in one temporary directory, which goes when it ends; so do the brokers.
"""

import contextlib
import importlib.metadata
import resource
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace
from rich.console import Console

from bench.counted.report import compare, show
from bench.figures import report, results
from bench.figures.measurement import NotMeasured
from bench.figures.profile import FULL, QUICK, Results, Scale, ServerKind
from bench.figures.rounds import measure
from bench.loads.requests import AnswerError
from bench.loads.topic_loads import topic_loads
from bench.peers import PEERS
from bench.profiles import PROFILES, Measured, called, measured_by
from bench.servers.audits import audits
from bench.servers.broker_clusters import CLUSTERS, HOSTS, SINGLE
from bench.servers.brokers import APACHE_KAFKA, KINDS, PENSTOCK, version
from bench.servers.group_brokers import GROUPED
from bench.servers.guarded_brokers import GUARDED
from bench.servers.loaders import SPARK, loaders
from bench.servers.locked_brokers import LOCKED
from bench.servers.mirrors import MIRROR_MAKER, MIRRORED
from bench.servers.registry_servers import Registry, elsewhere, penstock, running
from bench.servers.shippers import shippers
from bench.servers.whole_pipelines import whole_pipeline
from bench.spark.spark_peer import VERSION as SPARK_VERSION
from bench.spark.spark_peer import spark_peer
from harness.kafka.apache_kafka import VERSION as KAFKA_VERSION
from harness.kafka.apache_kafka import kafka_classpath, why_no_kafka
from harness.kafka.mirror_maker import mirror_maker_classpath, why_no_mirror_maker
from harness.processes.server_process import ServerFailed

_WIDTH = 280  # a table is not folded when it goes into a file


Kinds = Mapping[str, ServerKind]


_BESIDE_KAFKA: Mapping[Measured, Mapping[str, ServerKind]] = {
    Measured.BROKERS: KINDS,
    Measured.GROUPS: GROUPED,
    Measured.LOCKS: LOCKED,
    Measured.AUTHORIZATION: GUARDED,
    Measured.CLUSTERS: CLUSTERS,
    Measured.HOSTS: HOSTS,
    Measured.FLEETS: SINGLE,
}


def _brokers(wanted: tuple[str, ...]) -> list[str]:
    names = [name for name in KINDS if not wanted or name in wanted]
    if APACHE_KAFKA in names and kafka_classpath() is None:
        print(f"without {APACHE_KAFKA}: {why_no_kafka()}", file=sys.stderr)
        names.remove(APACHE_KAFKA)
    return names


def _mirrors(wanted: tuple[str, ...]) -> Kinds:
    """Ours, and Apache Kafka's, unless only one of them is wanted."""
    names = {PENSTOCK: PENSTOCK, MIRROR_MAKER: APACHE_KAFKA}
    kinds = {name: MIRRORED[name] for name in names if not wanted or names[name] in wanted}
    if MIRROR_MAKER in kinds and mirror_maker_classpath() is None:
        print(f"without {MIRROR_MAKER}: {why_no_mirror_maker()}", file=sys.stderr)
        del kinds[MIRROR_MAKER]
    return kinds


def _registries(wanted: tuple[str, ...], other: Registry | None) -> Kinds:
    kinds: dict[str, ServerKind] = {}
    if not wanted or PENSTOCK in wanted:
        kinds[PENSTOCK] = penstock
    if other is not None:
        kinds[other.name] = running(other)
    return kinds


def _agents(directory: Path, wanted: tuple[str, ...], stack: contextlib.ExitStack) -> Kinds:
    """Ours and those of its peers that are here, or those that are wanted; ended with the stack."""
    names = [name for name in (PENSTOCK, *PEERS) if not wanted or name in wanted]
    for name in [name for name in names if name in PEERS]:
        if why := PEERS[name].why_not():
            print(f"without {name}: {why}", file=sys.stderr)
            names.remove(name)
    if not names:
        return {}
    try:
        return stack.enter_context(shippers(directory, names))
    except NotMeasured as missing:
        print(f"no agents: {missing}", file=sys.stderr)
        return {}


def _loaders(directory: Path, wanted: tuple[str, ...], stack: contextlib.ExitStack) -> Kinds:
    """Ours, and Spark's own Kafka source unless only ours is wanted; ended with the stack."""
    peer = None
    if not wanted:
        try:
            peer = spark_peer()
        except NotMeasured as missing:
            print(f"without {SPARK}: {missing}", file=sys.stderr)
    return stack.enter_context(loaders(directory, peer))


def _audits(
    profile: str,
    directory: Path,
    scale: Scale,
    wanted: tuple[str, ...],
    stack: contextlib.ExitStack,
) -> Kinds:
    """Ours, and what each profile compares it with unless only ours is wanted."""
    try:
        return stack.enter_context(audits(profile, directory, scale, beside=not wanted))
    except NotMeasured as missing:
        print(f"{profile}: {missing}", file=sys.stderr)
        return {}


def _other(url: str | None, pid: int | None) -> Registry | None:
    if url is None:
        if pid is not None:
            raise click.BadParameter("--beside-pid is the process of --beside: give both")
        return None
    try:
        return elsewhere(url, pid)
    except (ValueError, OSError, AnswerError) as error:
        raise click.BadParameter(f"--beside {url}: {error}") from None


def _chosen(names: tuple[str, ...]) -> list[str]:
    chosen: list[str] = []
    for name in names:
        found = called(name)
        if not found:
            raise click.BadParameter(f"no profile {name!r}; there are {', '.join(PROFILES)}")
        chosen += found
    return list(dict.fromkeys(chosen or PROFILES))


def _list_profiles() -> None:
    for profile in PROFILES.values():
        print(f"{profile.name:20} {profile.about}")


@click.command()
@click.argument("names", nargs=-1, metavar="[PROFILE]...")
@click.option("--list", "only_list", is_flag=True, help="Name the profiles and end.")
@click.option("--quick", is_flag=True, help="Seconds instead of minutes: shows that it works.")
@click.option("--rounds", type=click.IntRange(1), help="Default 3; 1 with --quick.")
@click.option(
    "--broker", "brokers", multiple=True, type=click.Choice([*KINDS, *PEERS]), help="Only this."
)
@click.option(
    "--beside", metavar="URL", help="A registry to measure ours with; what it is told, it keeps."
)
@click.option("--beside-pid", type=int, help="Its process: for processor time and memory.")
@click.option("--case", "cases", multiple=True, help="Only cases with this in their names.")
@click.option(
    "--kept-hours", type=click.IntRange(2, 168), help="Of a fleet in an audit's database; 24."
)
@click.option(
    "--missed-gb", type=click.FloatRange(0, min_open=True), help="By a follower that is away; 1."
)
@click.option(
    "--compare",
    "compares",
    is_flag=True,
    help="Two commits, by instructions; or one and this tree.",
)
@click.option("--counts", is_flag=True, help="Instructions of hot paths, beside the accepted ones.")
@click.option("--accept-counts", is_flag=True, help="Count, and accept that: bench/counts.json.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="Write all samples there; else below bench/results, but for --quick.",
)
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the tables for a page.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/var/tmp"),
    show_default=True,
    help="On the disk to measure with; 30 GB free for the recovery profile.",
)
def main(  # noqa: PLR0917 -- one for each option
    names: tuple[str, ...],
    only_list: bool,
    quick: bool,
    rounds: int | None,
    brokers: tuple[str, ...],
    beside: str | None,
    beside_pid: int | None,
    cases: tuple[str, ...],
    kept_hours: int | None,
    missed_gb: float | None,
    compares: bool,
    counts: bool,
    accept_counts: bool,
    json_file: Path | None,
    markdown: Path | None,
    directory: Path,
) -> None:
    """Measures PROFILEs (default: all) on Penstock and Apache Kafka, in turns.

    `cluster` stands for those of three brokers each, with three replicas of everything.
    `registry` stands for the profiles of the registry: on Penstock, and on the one --beside.
    `agent` stands for those of the agent, in turns with those of its peers that are here; --broker
    names one of them, too.
    `loader` is measured beside Spark's own Kafka source unless there is a --broker.
    `mirror` is measured beside MirrorMaker 2 unless there is a --broker.
    `audit` stands for those of the audit, in turns with what each of them is compared with.

    With --compare and --counts, --case says which paths; `--compare A B` takes commits in the place
    of PROFILEs.
    """
    if only_list:
        _list_profiles()
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is cleaned up
    if compares:
        compare(names, cases, json_file)
        return
    if counts or accept_counts:
        show(cases, json_file, accept=accept_counts)
        return
    chosen = _chosen(names)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # inherited by the brokers
    other = _other(beside, beside_pid)
    of_brokers = any(measured_by(name) in _BESIDE_KAFKA for name in chosen)
    compared = _brokers(brokers) if of_brokers else []
    kinds: dict[Measured, Kinds] = {
        what: {name: made[name] for name in compared} for what, made in _BESIDE_KAFKA.items()
    }
    kinds[Measured.REGISTRIES] = _registries(brokers, other)
    rounds = rounds or (1 if quick else 3)
    scale = QUICK if quick else FULL
    if kept_hours is not None:
        scale = replace(scale, kept_hours=kept_hours)
    if missed_gb is not None:
        scale = replace(scale, missed_bytes=int(missed_gb * 1e9))
    began = results.circumstances(directory, {})
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    all_results: list[Results] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory) as work:
        files = Path(work) / "files"
        files.mkdir()
        for name in chosen:
            with contextlib.ExitStack() as stack:
                what = measured_by(name)
                if what is Measured.AGENTS:
                    servers = _agents(Path(work), brokers, stack)
                elif what is Measured.LOADERS:
                    servers = _loaders(Path(work), brokers, stack)
                elif what is Measured.MIRRORS:
                    servers = _mirrors(brokers)
                elif what is Measured.TOPIC_LOADS:
                    servers = {PENSTOCK: topic_loads}
                elif what is Measured.PIPELINES:
                    servers = {PENSTOCK: whole_pipeline}
                elif what is Measured.AUDITS:
                    servers = _audits(name, Path(work), scale, brokers, stack)
                else:
                    servers = kinds[what]
                if not servers:
                    print(f"{name}: nothing to be measured", file=sys.stderr)
                    continue
                print(name, file=sys.stderr)
                try:
                    measured = measure(
                        PROFILES[name],
                        servers,
                        scale,
                        rounds=rounds,
                        directory=Path(work),
                        files=files,
                        only=cases,
                    )
                except ServerFailed as failure:
                    raise click.ClickException(f"a server did not start: {failure}") from None
            all_results.append(measured)
            console.print(f"{name}: {measured.profile.about}", style="bold")
            console.print(report.table(measured))
    versions = {name: version(name) for name in (PENSTOCK, *compared)}
    for name, peer in PEERS.items():
        if any(name in each.brokers for each in all_results):
            versions[name] = peer.version()
    if any(each.profile.name == "loader" for each in all_results):
        versions["PySpark"] = importlib.metadata.version("pyspark")
        versions[SPARK] = SPARK_VERSION
    if any(MIRROR_MAKER in each.brokers for each in all_results):
        versions[MIRROR_MAKER] = KAFKA_VERSION
    if other is not None:
        versions[other.name] = beside or ""
    began["versions"] = versions
    circumstances = _told(began)
    if json_file is not None or not quick:
        profiles = {each.profile.name: report.as_json(each) for each in all_results}
        circumstances["written to"] = str(results.write(began, json_file, profiles=profiles))
    if markdown is not None:
        about = "".join(f"- {key}: `{value}`\n" for key, value in circumstances.items())
        markdown.write_text("\n".join([about, *map(report.markdown, all_results)]))
    _end(console, all_results, circumstances)


def _told(circumstances: Mapping[str, object]) -> dict[str, str]:
    """The same in lines, for people."""
    lines: dict[str, str] = {}
    for key, value in circumstances.items():
        if isinstance(value, Mapping):
            lines |= _told(value)
        else:
            lines[key] = str(value)
    return lines


def _end(console: Console, measured: list[Results], circumstances: Mapping[str, str]) -> None:
    for key, value in circumstances.items():
        console.print(f"{key:14} {value}")
    judged = [verdict for verdict in report.verdicts(measured) if verdict is not None]
    if judged:
        console.print(f"{'goals':14} {sum(judged)} of {len(judged)} met")
    failed = report.failures(measured)
    if failed:
        console.print(f"{'failures':14} {failed}")
        sys.exit(1)


if __name__ == "__main__":
    main()
