"""`penstock mirror status`, `promote`, `demote`, `pause`, `resume`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from client.errors import ClientError
from ground.http_client import HttpUrl
from ground.http_security import access_to
from ground.listening import is_everywhere
from mirror.config import MirrorConfig
from mirror.errors import MirrorFailure
from mirror.opening import Compared, Opening
from penstock.cli.failures import Failed
from penstock.cli.http_address import get
from penstock.cli.output import json_option, print_json, print_table, say
from penstock.config.options import configuration_options, configured
from penstock.connections.http_security_option import http_security_option, said_http_security

_SECONDS: Final = 10.0
_STANDING: Final = "/api/v1/standing"
_COLUMNS: Final = (
    *("topic", "partition", "stage", "copied", "end", "lag_messages", "lag_bytes"),
    *("lag_seconds", "remark"),
)
_ENDS: Final = ("topic", "partition", "end")


@click.command
@configuration_options
@http_security_option("mirror", "PENSTOCK_MIRROR_SECURITY", "How its pages are asked for.")
@json_option
def status(config: Path | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Show how far a worker is: each partition, and what is wrong.

    The exit code is 1 if something is wrong.

    \b
    Example:
        penstock mirror status --config mirror.yaml
    """
    loaded = configured(MirrorConfig, config, overrides)
    found = _standing(_pages(loaded))
    if as_json:
        print_json(found)
    else:
        _show(found)
    return 1 if found["not_ready"] or found["remarks"] else 0


@click.command
@click.argument("topic")
@configuration_options
@click.option(
    "--without-source",
    is_flag=True,
    help="Do not compare with the source, which may be gone: what it still has is not copied.",
)
@json_option
def promote(
    topic: str,
    config: Path | None,
    overrides: tuple[str, ...],
    without_source: bool,
    as_json: bool,
) -> None:
    """End the mirroring of a copy, and open it for writing.

    Nobody may write to the source by then: the copy must have all of it, which is compared first.

    \b
    Example:
        penstock mirror promote dc1.page_views --config mirror.yaml
    """
    with _opened(config, overrides) as opening:
        compared = opening.promote(topic, without_source=without_source)
    _done(topic, "promoted", f"{topic} is open: it is an ordinary topic now", as_json, compared)


@click.command
@click.argument("topic")
@configuration_options
@json_option
def demote(topic: str, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Make an ordinary topic of the target a copy again.

    It must have nothing that the source has not, which is compared first.

    \b
    Example:
        penstock mirror demote dc1.page_views --config mirror.yaml
    """
    with _opened(config, overrides) as opening:
        compared = opening.demote(topic)
    _done(topic, "demoted", f"{topic} is a copy again", as_json, compared)


@click.command
@click.argument("topic")
@configuration_options
@json_option
def pause(topic: str, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Have all workers leave a copy alone.

    \b
    Example:
        penstock mirror pause dc1.page_views --config mirror.yaml
    """
    with _opened(config, overrides) as opening:
        opening.pause(topic, paused=True)
    _done(topic, "paused", f"{topic} is paused", as_json)


@click.command
@click.argument("topic")
@configuration_options
@json_option
def resume(topic: str, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Go on with a copy that was paused.

    \b
    Example:
        penstock mirror resume dc1.page_views --config mirror.yaml
    """
    with _opened(config, overrides) as opening:
        opening.pause(topic, paused=False)
    _done(topic, "resumed", f"{topic} goes on", as_json)


@contextmanager
def _opened(config: Path | None, overrides: tuple[str, ...]) -> Iterator[Opening]:
    loaded = configured(MirrorConfig, config, overrides)
    try:
        yield Opening(loaded)
    except (MirrorFailure, ClientError) as error:
        raise Failed(str(error)) from None


def _pages(config: MirrorConfig) -> HttpUrl:
    """Where the worker's are, on this machine if it listens on all addresses."""
    host = "127.0.0.1" if is_everywhere(config.http_host) else config.http_host
    return HttpUrl("https" if config.http.tls else "http", host, config.http_port)


def _standing(url: HttpUrl) -> dict[str, Any]:
    access = access_to(said_http_security("mirror", url))
    answer = get(url, _STANDING, program="mirror", seconds=_SECONDS, access=access)
    if answer.status != HTTPStatus.OK:
        raise Failed(f"what answers at {url} is no mirror, or lets nobody in: {answer.status}")
    try:
        found = msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed(f"what answers is no mirror: {error}") from None
    return found


def _show(found: dict[str, Any]) -> None:
    say(f"mirror {found['name']}: {found['source']} to {found['target']}")
    if found["not_ready"]:
        say(f"not ready: {found['not_ready']}")
    for remark in found["remarks"]:
        say(remark)
    rows = [
        {**each, "topic": topic["topic"], "remark": each["trouble"] or None}
        for topic in found["topics"]
        for each in topic["partitions"]
    ]
    if rows:
        print_table(_COLUMNS, rows)


def _done(
    topic: str, what: str, said: str, as_json: bool, compared: Sequence[Compared] = ()
) -> None:
    ends = [
        {"topic": topic, "partition": each.partition, "end": each.copy_end} for each in compared
    ]
    if as_json:
        print_json({"topic": topic, "done": what, "partitions": ends})
        return
    if ends:
        print_table(_ENDS, ends)
    say(said)
