"""`penstock mirror status`, `promote`, `demote`, `pause`, `resume`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
import msgspec

from client.errors import ClientError
from ground.http.client import HttpUrl
from ground.http.security import access_to
from ground.network.listening import is_everywhere
from mirror.config import MirrorConfig
from mirror.cutover.promotion import Compared, Promotion
from mirror.cutover.truncation import Excess
from mirror.errors import MirrorFailure
from penstock.cli.confirmation import confirm, yes_option
from penstock.cli.failures import Failed
from penstock.cli.http_address import get
from penstock.cli.output import json_option, print_json, print_table, say
from penstock.config.options import configuration_options, configured
from penstock.connections.http_options import http_security, http_security_option

_SECONDS: Final = 10.0
_STANDING: Final = "/api/v1/standing"
_COLUMNS: Final = (
    *("topic", "partition", "stage", "copied", "end", "lag_messages", "lag_bytes"),
    *("lag_seconds", "remark"),
)
_THROWN_AWAY: Final = ("topic", "partition", "from", "to", "messages")
_ENDS: Final = ("topic", "partition", "end")


@click.command
@configuration_options
@http_security_option(
    "mirror",
    "PENSTOCK_MIRROR_SECURITY",
    "How to connect to its pages: a YAML file with `tls`, and `token_file`.",
)
@json_option
def status(config: Path | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Show a worker's progress: each partition, and its problems.

    The exit code is 1 if there are problems.

    \b
    Example:
        penstock mirror status --config mirror.yaml
    """
    mirror_config = configured(MirrorConfig, config, overrides)
    mirror_status = _standing(_pages(mirror_config))
    if as_json:
        print_json(mirror_status)
    else:
        _show(mirror_status)
    return 1 if mirror_status["not_ready"] or mirror_status["remarks"] else 0


@click.command
@click.argument("topic")
@configuration_options
@click.option(
    "--without-source",
    is_flag=True,
    help="Do not compare with the source, which may be lost; messages that were not copied are "
    "missing.",
)
@json_option
def promote(
    topic: str,
    config: Path | None,
    overrides: tuple[str, ...],
    without_source: bool,
    as_json: bool,
) -> None:
    """Stop mirroring a copy, and open it for writing.

    First stop all producers of the source: the command checks that the copy is complete.

    \b
    Example:
        penstock mirror promote dc1.page_views --config mirror.yaml
    """
    with _opened(config, overrides) as opener:
        comparison = opener.promote(topic, without_source=without_source)
    _done(
        topic,
        "promoted",
        f"{topic} is an ordinary topic now, open for writing",
        as_json,
        comparison,
    )


@click.command
@click.argument("topic")
@configuration_options
@click.option(
    "--cut",
    is_flag=True,
    help="Delete messages that the source lacks, after showing them. Groups that have "
    "read them are moved back.",
)
@yes_option
@json_option
def demote(
    *,
    topic: str,
    config: Path | None,
    overrides: tuple[str, ...],
    cut: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make an ordinary topic of the target a copy again.

    The command checks that the topic has no messages that the source lacks; with --cut it truncates
    the topic to where both agree. The same repairs a copy that stopped because the histories
    diverged.

    \b
    Example:
        penstock mirror demote dc1.page_views --config mirror.yaml
        penstock mirror demote dc1.page_views --config mirror.yaml --cut
    """

    def may_cut(due: Sequence[Excess]) -> None:
        if not as_json:
            print_table(_THROWN_AWAY, [_thrown_away(excess) for excess in due])
        if not yes:
            count = sum(excess.offsets for excess in due)
            confirm(f"permanently delete {count} messages of {topic}?", "nothing was changed")

    with _opened(config, overrides) as opener:
        demotion = opener.demote(topic, may_cut=may_cut if cut else None)
    if not as_json:
        for group in demotion.groups:
            say(f"group {group} was moved back to the new end of {topic}")
    details = {"cut": [_thrown_away(excess) for excess in demotion.cut], "groups": demotion.groups}
    _done(topic, "demoted", f"{topic} is a copy again", as_json, demotion.partitions, more=details)


@click.command
@click.argument("topic")
@configuration_options
@json_option
def pause(topic: str, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Pause a copy at all workers.

    \b
    Example:
        penstock mirror pause dc1.page_views --config mirror.yaml
    """
    with _opened(config, overrides) as opener:
        opener.pause(topic, paused=True)
    _done(topic, "paused", f"{topic} is paused", as_json)


@click.command
@click.argument("topic")
@configuration_options
@json_option
def resume(topic: str, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Resume a paused copy.

    \b
    Example:
        penstock mirror resume dc1.page_views --config mirror.yaml
    """
    with _opened(config, overrides) as opener:
        opener.pause(topic, paused=False)
    _done(topic, "resumed", f"{topic} goes on", as_json)


@contextmanager
def _opened(config: Path | None, overrides: tuple[str, ...]) -> Iterator[Promotion]:
    mirror_config = configured(MirrorConfig, config, overrides)
    try:
        yield Promotion(mirror_config)
    except (MirrorFailure, ClientError) as error:
        raise Failed(str(error)) from None


def _pages(config: MirrorConfig) -> HttpUrl:
    """The URL of the worker's pages; on this machine if it listens on all addresses."""
    host = "127.0.0.1" if is_everywhere(config.http_host) else config.http_host
    return HttpUrl("https" if config.http.tls else "http", host, config.http_port)


def _standing(url: HttpUrl) -> dict[str, Any]:
    access = access_to(http_security("mirror", url))
    answer = get(url, _STANDING, program="mirror", seconds=_SECONDS, access=access)
    if answer.status != HTTPStatus.OK:
        raise Failed(f"{url} is not a mirror, or it refused the request (HTTP {answer.status})")
    try:
        content = msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed(f"the server is not a mirror of this release: {error}") from None
    return content


def _show(standing: dict[str, Any]) -> None:
    say(
        f"mirror {standing['name']}: {standing['source']} to {standing['target']}, "
        f"offsets {standing['offsets']}"
    )
    if standing["not_ready"]:
        say(f"not ready: {standing['not_ready']}")
    for remark in standing["remarks"]:
        say(remark)
    comparison = standing.get("compared")
    if comparison and comparison["passes"]:
        say(f"last complete comparison with the source: {comparison['age_seconds']:.0f} s ago")
    elif comparison:
        say("the comparison with the source is not complete yet")
    rows = [
        {**partition, "topic": topic["topic"], "remark": partition["trouble"] or None}
        for topic in standing["topics"]
        for partition in topic["partitions"]
    ]
    if rows:
        print_table(_COLUMNS, rows)


def _thrown_away(excess: Excess) -> dict[str, Any]:
    """As it is shown: from the first offset to the last."""
    return {
        "topic": excess.topic,
        "partition": excess.partition,
        "from": excess.first,
        "to": excess.end - 1,
        "messages": excess.offsets,
    }


def _done(
    topic: str,
    what: str,
    message: str,
    as_json: bool,
    compared: Sequence[Compared] = (),
    *,
    more: Mapping[str, object] = MappingProxyType({}),
) -> None:
    end_offsets = [
        {"topic": topic, "partition": partition.partition, "end": partition.copy_end}
        for partition in compared
    ]
    if as_json:
        print_json({"topic": topic, "done": what, "partitions": end_offsets, **more})
        return
    if end_offsets:
        print_table(_ENDS, end_offsets)
    say(message)
