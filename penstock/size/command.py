"""`penstock size`: prints a site's needs as a table with remarks."""

from typing import Any, Final

import click
from msgspec import to_builtins

from penstock.cli.finite_range import FiniteRange
from penstock.cli.output import json_option, print_json, print_table
from penstock.cli.size_arguments import SizeType
from penstock.cli.time_arguments import DurationType
from penstock.size.model import Need, Plan, Site, plan

_COLUMNS: Final = ("program", "count", "cores", "memory", "disk", "in", "out")
_HOUR: Final = 3_600_000


class Cores(float):
    """A number of cores, shown with significant digits only and right-aligned."""

    def __str__(self) -> str:
        return _digits(self)


@click.command()
@click.option(
    "--hosts",
    type=click.IntRange(1, 10_000_000),
    required=True,
    metavar="N",
    help="Number of hosts with an agent.",
)
@click.option(
    "--per-day",
    type=SizeType(),
    required=True,
    metavar="SIZE",
    help="Log data written per day by all hosts together: 300GB, 1.5TB.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 36_500),
    default=7,
    show_default=True,
    metavar="N",
    help="Days that the brokers keep the data.",
)
@click.option(
    "--line",
    type=SizeType(),
    default="200B",
    show_default=True,
    metavar="SIZE",
    help="The average length of a line.",
)
@click.option("--typed", is_flag=True, help="Lines are JSON with a schema, not plain text.")
@click.option(
    "--files",
    type=click.IntRange(1, 1_000_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Growing log files per host.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    metavar="N",
    help="Number of replicas.",
)
@click.option(
    "--topic-count",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of topics.",
)
@click.option(
    "--topics-per-host",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Topics per host.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 100_000),
    default=16,
    show_default=True,
    metavar="N",
    help="Partitions per topic.",
)
@click.option(
    "--every",
    type=DurationType(),
    default="1h",
    show_default=True,
    metavar="TIME",
    help="The interval between loads.",
)
@click.option(
    "--linger",
    type=FiniteRange(0.001, 3600),
    default=0.1,
    show_default=True,
    metavar="SECONDS",
    help="The agents' `linger`: how long a batch waits for lines.",
)
@click.option(
    "--headroom",
    type=FiniteRange(1, 1000),
    default=2.0,
    show_default=True,
    metavar="FACTOR",
    help="The load of the busiest hour relative to the average.",
)
@click.option("--mirror", is_flag=True, help="Include a mirror of all data into another cluster.")
@json_option
def command(
    *,
    hosts: int,
    per_day: float,
    days: int,
    line: float,
    typed: bool,
    files: int,
    replication_factor: int,
    topic_count: int,
    topics_per_host: int,
    partitions: int,
    every: int,
    linger: float,
    headroom: float,
    mirror: bool,
    as_json: bool,
) -> None:
    """Estimate the brokers, disks, cores, network and memory that a site needs.

    The estimate is based on the figures in docs/benchmarks, from one machine with two cores;
    docs/capacity.md describes the method and its accuracy. The command connects to no server.

    \b
    Example:
        penstock size --hosts 1000 --per-day 300GB --days 7
        penstock size --hosts 500 --per-day 17TB --typed --linger 1 --mirror --json
    """
    if every <= 0:
        raise click.UsageError("--every must be more than 0")
    site = Site(
        hosts=hosts,
        bytes_a_day=per_day,
        days=days,
        line_bytes=line,
        json=typed,
        files_a_host=files,
        replicas=replication_factor,
        topics=topic_count,
        topics_a_host=min(topics_per_host, topic_count),
        partitions=partitions,
        load_seconds=every / 1000,
        linger_seconds=linger,
        headroom=headroom,
        mirror=mirror,
    )
    site_plan = plan(site)
    if as_json:
        print_json({"site": to_builtins(site), **to_builtins(site_plan)})
    else:
        _show(site, site_plan)


def _show(site: Site, needed: Plan) -> None:
    print(
        f"{site.hosts:,} hosts, {needed.lines_a_second:,.0f} lines/s in the busiest hour: "
        f"{_rate(needed.wire_mb_s)} and {needed.batches_a_second:,.0f} batches/s to the brokers\n"
    )
    print_table(_COLUMNS, [_row(need) for need in needed.needs])
    minutes = site.load_seconds / 60
    print(
        "\nEach row is for one process; - is negligible or has not been measured.\n"
        f"Disks: {_bytes(site.full * _disks(needed))} in {site.replicas} copies, {site.days:g} days"
        f", on disks that are {site.full:.0%} full then: {_bytes(_disks(needed))} in all.\n"
        f"Loads: each takes {needed.load_seconds / 60:,.1f} of {minutes:,.0f} minutes, and a day "
        f"is {_bytes(needed.loaded_gb_a_day)} of Parquet, before the file system's own copies.\n"
        f"Brokers: one core each; a start takes {max(1, needed.broker_start_seconds):,.0f} s."
    )
    if _by_number(site, needed):
        print(
            "Most of the brokers' work is the number of batches: with a larger `linger` "
            "(--linger) agents send fewer."
        )


def _by_number(site: Site, needed: Plan) -> bool:
    """Whether the number of batches determines the plan."""
    return site.replicas > 1 and needed.broker_cores > 1 and needed.batches_a_second > 1000


def _disks(needed: Plan) -> float:
    broker = needed.need("broker")
    return broker.count * (broker.disk_gb or 0.0)


def _row(need: Need) -> dict[str, Any]:
    return {
        "program": need.program,
        "count": need.count,
        "cores": None if need.cores is None else Cores(need.cores),
        "memory": None if need.memory_mb is None else _bytes(need.memory_mb / 1000),
        "disk": None if need.disk_gb is None else _bytes(need.disk_gb),
        "in": _rate(need.in_mb_s) if need.in_mb_s else None,
        "out": _rate(need.out_mb_s) if need.out_mb_s else None,
    }


def _bytes(gb: float) -> str:
    for factor, unit in ((1e-6, "PB"), (1e-3, "TB"), (1.0, "GB")):
        if gb * factor >= 1:
            return f"{_digits(gb * factor)} {unit}"
    return f"{gb * 1000:,.0f} MB"


def _rate(mb_s: float) -> str:
    return f"{_digits(mb_s)} MB/s" if mb_s >= 1 else f"{_digits(mb_s * 1000)} kB/s"


def _digits(number: float) -> str:
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2g}" if number >= 0.001 else "<0.001"
