"""`penstock backup make`, `show` and `restore`: backups of data that only ZooKeeper has.

The file contains password hashes and the key of login tickets, so only its owner may read it, and
`show` prints no more than counts. The size that is read is capped.
"""

import os
import time
from pathlib import Path
from typing import Final

import click
import msgspec

from ground.known_types import known_type
from penstock import __version__
from penstock.cli.confirmation import confirm, yes_option
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, print_table, say
from penstock.cli.time_arguments import time_text
from penstock.connections.zookeeper import needed_zookeeper, session_with, zookeeper_options

_VERSION: Final = 1
_MOST_BYTES: Final = 512 * 1024 * 1024


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a backup file. `nodes` maps ZooKeeper paths to data."""

    version: int = _VERSION
    program_version: str
    made: int
    cluster: str
    nodes: dict[str, bytes]


def read_backup(path: Path) -> Backup:
    """Reads a backup, and checks that its paths are ones that a backup may contain. Raises
    Failed."""
    from cluster.map_backup import MOST_BYTES, is_known  # noqa: PLC0415 an agent's host has no kazoo

    try:
        with path.open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from None
    try:
        if len(body) > _MOST_BYTES:
            raise msgspec.ValidationError(f"larger than {_MOST_BYTES} bytes")
        backup = msgspec.json.decode(body, type=known_type(Backup))
        if backup.version != _VERSION:
            raise msgspec.ValidationError(f"its version is {backup.version}; expected {_VERSION}")
        for node, data in backup.nodes.items():
            if not is_known(node) or len(data) > MOST_BYTES:
                raise msgspec.ValidationError(f"unexpected node {node[:200]!r}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failed(f"{path} is not a backup of this release: {error}") from None
    return backup


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@zookeeper_options("The brokers' ZooKeeper.")
@json_option
def make(
    *, file: Path, zookeeper: str | None, zookeeper_secret_file: Path | None, as_json: bool
) -> None:
    """Back up the data of a cluster that only ZooKeeper has.

    The data are configs of topics and brokers, users, quotas, ACLs, and the key of login tickets.
    Topics themselves are on the brokers' disks (`penstock topics recover`). To save group offsets,
    use `penstock groups export`. FILE must not exist, and is readable by its owner only.

    \b
    Example:
        penstock backup make zookeeper.json --zookeeper zk1:2181/penstock \\
            --zookeeper-secret-file /etc/penstock/secrets/zookeeper-secret
    """
    from cluster.map_backup import contents, kinds  # noqa: PLC0415
    from cluster.records.identity import find_cluster_id  # noqa: PLC0415

    address = needed_zookeeper(zookeeper, zookeeper_secret_file)
    with session_with(address) as session:
        cluster = find_cluster_id(session) or ""
        nodes = contents(session)
    backup = Backup(
        program_version=__version__,
        made=time.time_ns() // 1_000_000,
        cluster=cluster,
        nodes=nodes,
    )
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(file, flags, 0o600), "wb") as output:
            output.write(msgspec.json.encode(backup))
            output.flush()
            os.fsync(output.fileno())
    except OSError as error:
        raise Failed(f"{file} cannot be written: {error.strerror}") from None
    counts = dict(kinds(nodes))
    if as_json:
        print_json({"file": str(file), "cluster": cluster, "nodes": counts})
    else:
        contents_text = ", ".join(f"{count:,} {words}" for words, count in counts.items())
        say(f"{file}: {contents_text or 'nothing but the id'} of cluster {cluster}")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show a backup's cluster, time and contents, without secrets.

    \b
    Example:
        penstock backup show zookeeper.json
    """
    from cluster.map_backup import kinds  # noqa: PLC0415

    backup = read_backup(file)
    rows = [{"what": words, "count": count} for words, count in kinds(backup.nodes)]
    if as_json:
        print_json({"cluster": backup.cluster, "made": backup.made, "nodes": rows})
        return
    say(f"cluster {backup.cluster}, {time_text(backup.made)}, by {backup.program_version}")
    print_table(("what", "count"), rows)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@zookeeper_options("The brokers' ZooKeeper, which is empty or has only its topics again.")
@yes_option
@json_option
def restore(
    *,
    file: Path,
    zookeeper: str | None,
    zookeeper_secret_file: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Restore the data of a cluster that only ZooKeeper had.

    First run `penstock topics recover` on each broker, as a topic's configs need the topic.
    Existing data are not replaced. Stop the brokers meanwhile.

    Exit code 1: existing data differ and were kept, or topics are missing.

    \b
    Example:
        penstock backup restore zookeeper.json --zookeeper zk1:2181/penstock \\
            --zookeeper-secret-file /etc/penstock/secrets/zookeeper-secret
    """
    from cluster.errors import MapDisagrees  # noqa: PLC0415
    from cluster.map_backup import bring_back  # noqa: PLC0415

    backup = read_backup(file)
    address = needed_zookeeper(zookeeper, zookeeper_secret_file)
    if not yes:
        confirm(f"restore {len(backup.nodes):,} nodes of cluster {backup.cluster}?", "not restored")
    with session_with(address, may_be_new=True) as session:
        try:
            result = bring_back(session, backup.cluster, backup.nodes)
        except MapDisagrees as error:
            raise Failed(str(error)) from None
    if as_json:
        print_json(
            {
                "created": result.created,
                "unchanged": result.unchanged,
                "others": result.others,
                "without_topic": result.without_topic,
            }
        )
    else:
        say(f"{len(result.created):,} restored, {len(result.unchanged):,} already existed")
    paths = [*result.others, *result.without_topic]
    if paths:
        reason = "exist with other data" if result.others else "belong to missing topics"
        raise Failed(f"{len(paths):,} nodes {reason}, and were skipped: {', '.join(paths[:5])}")
