"""Computes a site's needs. Pure: values in, values out.

Rule 1: rates are those of an average day times the headroom; disks hold average days.
Rule 2: costs that have not been measured are None, never guessed. Assumptions are fields of `Site`.
Rule 3: costs depend on bytes and on numbers: a broker's on bytes appended and sent and on batches,
        an agent's on lines and on reads of files.
Rule 4: a broker has one core.

MB and GB are powers of ten, as in docs/benchmarks.
"""

from math import ceil

import msgspec

from penstock.size import unit_costs

_DAY_SECONDS = 86_400
_GB = 1e9
_MB = 1e6
_ENSEMBLE = 3


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a site, and the assumptions about it."""

    hosts: int
    bytes_a_day: float  # of all hosts together, uncompressed
    days: float  # of retention at the brokers
    line_bytes: float = unit_costs.LINE_BYTES
    json: bool = False
    files_a_host: int = 10
    replicas: int = 3
    topics: int = 1
    topics_a_host: int = 1  # written by each host
    partitions: int = 16  # of a topic
    load_seconds: float = 3600.0  # between loads
    linger_seconds: float = unit_costs.LINGER_SECONDS
    headroom: float = 2.0  # the busiest hour relative to the average
    full: float = 0.8  # the share of a disk in use at full retention
    mirror: bool = False


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of each of `count` equal processes. A need is None if it was not measured."""

    program: str
    count: int
    cores: float | None = None
    memory_mb: float | None = None
    disk_gb: float | None = None
    in_mb_s: float = 0.0
    out_mb_s: float = 0.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of a site."""

    lines_a_second: float  # with headroom, as are all rates
    batches_a_second: float
    wire_mb_s: float
    broker_cores: float  # of all brokers together
    broker_start_seconds: float  # until a broker serves all its partitions
    loaded_gb_a_day: float  # before the file system's own replication
    load_seconds: float  # the duration of a load
    needs: tuple[Need, ...]

    def need(self, program: str) -> Need:
        return next(need for need in self.needs if need.program == program)


def agent_cores(
    lines: float,
    *,
    line_bytes: float = unit_costs.LINE_BYTES,
    json: bool = False,
    reads: float = 0.0,
) -> float:
    """Returns the cores for `lines` per second, including the cost of `reads` per second that find
    few lines."""
    line_seconds = (
        unit_costs.AGENT_JSON_LINE_SECONDS if json else unit_costs.AGENT_PLAIN_LINE_SECONDS
    )
    byte_share = unit_costs.AGENT_SHARE_OF_BYTES
    relative_length = line_bytes / unit_costs.LINE_BYTES
    return (
        lines * line_seconds * (1 - byte_share + byte_share * relative_length)
        + reads * unit_costs.AGENT_READ_SECONDS
    )


def wire_bytes(line_bytes: float, *, json: bool) -> float:
    """Returns the size of a line in a topic, compressed with zstd."""
    measured_bytes = unit_costs.JSON_WIRE_BYTES if json else unit_costs.PLAIN_WIRE_BYTES
    return line_bytes * measured_bytes / unit_costs.LINE_BYTES


def broker_cores(*, in_gb_s: float, batches: float, fetched_gb_s: float, replicas: int) -> float:
    """Returns the cores of all brokers together. `fetched_gb_s` counts consumers, not followers."""
    batch_seconds = unit_costs.BROKER_BATCH_SECONDS
    if replicas > 1:
        batch_seconds = unit_costs.BROKER_REPLICATED_BATCH_SECONDS * replicas
    replicated_gb_s = in_gb_s * (replicas - 1)
    return (
        in_gb_s * replicas * unit_costs.BROKER_APPEND_GB_SECONDS
        + (replicated_gb_s + fetched_gb_s) * unit_costs.BROKER_FETCH_GB_SECONDS
        + batches * batch_seconds
    )


def plan(site: Site) -> Plan:
    average_lines = site.bytes_a_day / _DAY_SECONDS / site.line_bytes  # lines a second
    lines = average_lines * site.headroom
    host_lines = lines / site.hosts
    wire = wire_bytes(site.line_bytes, json=site.json)
    wire_bytes_s = lines * wire
    batches = site.hosts * _batches(site, host_lines, host_lines * wire)
    return _plan(site, lines, wire_bytes_s, batches)


def _batches(site: Site, lines: float, byte_rate: float) -> float:
    """Batches per second of one host: a batch is sent when it is full, or after `linger`."""
    lingering_batches = min(site.topics_a_host / site.linger_seconds, lines)
    return max(lingering_batches, byte_rate / unit_costs.FULL_BATCH_BYTES)


def _plan(site: Site, lines: float, wire_bytes_s: float, batches: float) -> Plan:
    replicas = site.replicas
    readers = 2 if site.mirror else 1  # the loader, the mirror
    in_mb_s = wire_bytes_s / _MB
    cores = broker_cores(
        in_gb_s=wire_bytes_s / _GB,
        batches=batches,
        fetched_gb_s=wire_bytes_s / _GB * readers,
        replicas=replicas,
    )
    brokers = max(replicas, ceil(cores))
    kept_gb = wire_bytes_s / site.headroom * _DAY_SECONDS * site.days * replicas / site.full / _GB
    broker_partitions = site.topics * site.partitions * replicas / brokers
    loads = lines * unit_costs.LOADER_ROW_SECONDS
    loader_cores = max(1, ceil(loads))
    needs = [
        _agent(site, lines / site.hosts, in_mb_s / site.hosts),
        Need(
            program="broker",
            count=brokers,
            cores=cores / brokers,
            memory_mb=unit_costs.BROKER_MB + site.hosts * unit_costs.CONNECTION_BYTES / _MB,
            disk_gb=kept_gb / brokers,
            in_mb_s=in_mb_s * replicas / brokers,
            out_mb_s=in_mb_s * (replicas - 1 + readers) / brokers,
        ),
        Need(program="registry", count=min(2, replicas), memory_mb=unit_costs.REGISTRY_MB),
        Need(
            program="zookeeper",
            count=_ENSEMBLE if replicas > 1 else 1,
            memory_mb=unit_costs.ZOOKEEPER_MB,
        ),
        Need(
            program="loader",
            count=1,
            cores=loader_cores,
            memory_mb=unit_costs.LOADER_JVM_MB + loader_cores * unit_costs.LOADER_WORKER_MB,
            in_mb_s=in_mb_s,
        ),
        Need(
            program="audit",
            count=1,
            cores=(site.hosts + brokers)
            / unit_costs.LEDGER_INTERVAL_SECONDS
            / unit_costs.AUDIT_ENTRIES,
        ),
    ]
    if site.mirror:
        needs.append(
            Need(
                program="mirror",
                count=1,
                cores=in_mb_s / 1000 * unit_costs.MIRROR_GB_SECONDS,
                memory_mb=unit_costs.MIRROR_MB,
                in_mb_s=in_mb_s,
                out_mb_s=in_mb_s,
            )
        )
    return Plan(
        lines_a_second=lines,
        batches_a_second=batches,
        wire_mb_s=in_mb_s,
        broker_cores=cores,
        broker_start_seconds=broker_partitions * unit_costs.BROKER_START_PARTITION_SECONDS,
        loaded_gb_a_day=_landed_gb(site),
        load_seconds=loads * site.load_seconds / loader_cores,
        needs=tuple(needs),
    )


def _agent(site: Site, lines: float, mb_s: float) -> Need:
    # A file is read when it has grown, at most once per `linger`.
    reads = min(lines, site.files_a_host / site.linger_seconds)
    return Need(
        program="agent",
        count=site.hosts,
        cores=agent_cores(lines, line_bytes=site.line_bytes, json=site.json, reads=reads),
        memory_mb=unit_costs.AGENT_MB,
        out_mb_s=mb_s,
    )


def _landed_gb(site: Site) -> float:
    return site.bytes_a_day * unit_costs.ROW_FILE_BYTES / unit_costs.LINE_BYTES / _GB
