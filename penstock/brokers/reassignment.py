"""`penstock brokers drain` and `fill`: move replicas off a broker, and onto new ones.

The moves are planned (placement.py), started and watched. If the command ends early, the brokers
continue; called again, it goes on watching, and removes the throttle at the end.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import click
import msgspec

from client.admin.reassignments import Key, Moving, move, moving, take_throttle_away, throttle
from client.admin.topics import all_topics
from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata
from client.errors import ClientError
from penstock.brokers.placement import NoPlace, Placement, Racks, Replicas, drained, filled
from penstock.cli.failures import Failed
from penstock.cli.finite_range import FiniteRange
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option, connected

COLUMNS: Final = ("topic", "partition", "from", "to")
_LOOKS_SECONDS: Final = 0.5
_SETTLED_SECONDS: Final = 30.0  # by then brokers know the controller's changes
_UNEVEN_SECONDS: Final = 10.0  # by then all of them do, though their answers agree
_ROUNDS: Final = 5  # more than one, as topics may be created meanwhile

Plan = dict[Key, Replicas]
NOTHING: Final[Plan] = {}
F = TypeVar("F", bound=Callable[..., Any])


class How(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a move."""

    dry_run: bool
    no_wait: bool
    throttle: int | None
    as_json: bool


class Found(msgspec.Struct, frozen=True):
    """The cluster, and the placement after all reassignments in progress."""

    cluster: ClusterMetadata
    moving: Mapping[Key, Moving]
    placement: Placement

    @property
    def racks(self) -> Racks:
        """The brokers' racks; without one, brokers of the same address share a rack."""
        brokers = self.cluster.brokers.values()
        return {broker.id: broker.rack or broker.address.host for broker in brokers}


def moving_options(command: F) -> F:
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the moves, and make none."),
        click.option(
            "--no-wait", is_flag=True, help="Start the moves, and do not wait for their end."
        ),
        click.option(
            "--throttle",
            type=FiniteRange(min=1),
            metavar="N",
            help="Limit the bytes per second that each broker sends, and receives, for the moves.",
        ),
    ):
        command = option(command)
    return bootstrap_option(json_option(command))


@click.command()
@click.argument("broker", type=click.IntRange(0))
@moving_options
def drain(
    *,
    broker: int,
    bootstrap: str,
    as_json: bool,
    dry_run: bool,
    no_wait: bool,
    throttle: float | None,
) -> None:
    """Move all replicas off a broker before it is removed for good.

    Replicas stay spread over racks, and evenly over brokers. Each new replica is in sync before the
    old one is removed. Called again, the command continues; a new --throttle applies from then on.

    New topics may get replicas on the broker while it runs: stop it when this is done.

    \b
    Example:
        penstock brokers drain 3 --dry-run
        penstock brokers drain 3 --throttle 20e6
    """
    how = _how(dry_run, no_wait, throttle, as_json)
    with connected(bootstrap) as brokers:
        found = _found(brokers)
        known = {replica for replicas in found.placement.values() for replica in replicas}
        leaving = {broker for every in found.moving.values() for broker in every.removing}
        if broker not in {*known, *leaving, *found.racks}:
            raise Failed(f"no broker {broker}: it is not in the cluster, and has no replicas")
        _carry_out(
            brokers,
            found,
            lambda now: drained(now.placement, now.racks, broker),
            how,
            nothing=f"broker {broker} has no replicas",
            done=f"broker {broker} has no replicas any more: stop it before topics are created",
        )


@click.command()
@click.argument("new", type=click.IntRange(0), nargs=-1, required=True, metavar="BROKER...")
@moving_options
def fill(
    *,
    new: tuple[int, ...],
    bootstrap: str,
    as_json: bool,
    dry_run: bool,
    no_wait: bool,
    throttle: float | None,
) -> None:
    """Give new brokers their share of replicas and leaders.

    The fewest replicas that even out the numbers move, from the brokers with the most; they stay
    spread over racks. Nothing moves between the other brokers.

    \b
    Example:
        penstock brokers fill 4 --dry-run
        penstock brokers fill 4 5 --throttle 20e6
    """
    how = _how(dry_run, no_wait, throttle, as_json)
    with connected(bootstrap) as brokers:
        found = _found(brokers)
        for broker in new:
            if broker not in found.racks:
                raise Failed(f"no broker {broker} in the cluster")
        names = ", ".join(map(str, new))
        _carry_out(
            brokers,
            found,
            lambda now: filled(now.placement, now.racks, set(new)),
            how,
            nothing=f"nothing to move: broker {names} has its share",
            done=f"broker {names} now has its share of the replicas",
            rounds=1,
        )


def _how(dry_run: bool, no_wait: bool, throttle: float | None, as_json: bool) -> How:
    rate = None if throttle is None else int(throttle)
    return How(dry_run=dry_run, no_wait=no_wait, throttle=rate, as_json=as_json)


def _found(brokers: Brokers, come: Plan = NOTHING) -> Found:
    """`come`: what has come by now, as we know.

    Of a move that is over, brokers learn after the controller has: to them the partition still has
    the replicas of before and after, and a plan would keep both. So all of them are asked, until
    none has anything else to say. As long as none of them has heard of it they agree, too: then the
    partition has more replicas than others of its topic. A topic may be like that for good, so
    this is waited for less long.
    """
    began = time.monotonic()
    while True:
        on_the_move = moving(brokers)
        cluster = all_topics(brokers)
        placement = _placement(cluster)
        wanted = {
            key: set(come.get(key, replicas))
            for key, replicas in placement.items()
            if key not in on_the_move
        }
        is_settled = all(
            set(seen.get(key, ())) == replicas
            for seen in (placement, *_seen_by_each(brokers, cluster))
            for key, replicas in wanted.items()
        )
        patience = _SETTLED_SECONDS
        if is_settled:
            patience = _UNEVEN_SECONDS if _uneven(wanted) else 0.0
        if time.monotonic() - began >= patience:
            break
        time.sleep(_LOOKS_SECONDS)
    placement |= {
        key: reassignment.target for key, reassignment in on_the_move.items() if key in placement
    }
    return Found(cluster, on_the_move, placement)


def _uneven(replicas: Mapping[Key, Collection[int]]) -> bool:
    """Whether partitions of a topic differ in their number of replicas."""
    counts: dict[str, int] = {}
    return any(
        counts.setdefault(topic, len(copies)) != len(copies)
        for (topic, _), copies in replicas.items()
    )


def _seen_by_each(brokers: Brokers, cluster: ClusterMetadata) -> Iterator[Placement]:
    """The placement as seen by each broker that answers; a dead one may be drained."""
    for broker in cluster.brokers:
        with suppress(ClientError):
            yield _placement(brokers.as_seen_by(broker))


def _placement(cluster: ClusterMetadata) -> Plan:
    return {
        (name, partition.index): partition.replicas
        for name, topic in cluster.topics.items()
        for partition in topic.partitions
    }


def _carry_out(
    brokers: Brokers,
    found: Found,
    plan: Callable[[Found], Plan],
    how: How,
    *,
    nothing: str,
    done: str,
    rounds: int = _ROUNDS,
) -> None:
    """Plan, start and watch moves until there is nothing left to plan."""
    moved: Plan = {}
    before = found.placement
    topics = {topic for topic, _ in found.moving}
    changes = _planned(plan, found)
    if how.dry_run:
        _show(before, changes, how, nothing)
        return
    for _ in range(rounds):
        topics |= {topic for topic, _ in changes}
        _begin(brokers, found, changes, how)
        moved |= changes
        if how.no_wait:
            break
        found = _found(brokers, _watch(brokers, changes))
        changes = _planned(plan, found)
        if not changes:
            break
    if how.as_json:
        print_json(_rows(before, moved))
    if how.no_wait:
        _say(f"{len(moved)} partitions are being moved: penstock brokers list shows them")
        return
    # Moves that are over may have had one, and this command not have seen them.
    if take_throttle_away(brokers, found.cluster.topics, sorted(found.racks)):
        _say("the throttle was removed")
    _say(done if moved or topics else nothing)


def _planned(plan: Callable[[Found], Plan], found: Found) -> Plan:
    try:
        return plan(found)
    except NoPlace as error:
        raise Failed(f"{error}: nothing was moved") from None


def _show(before: Placement, changes: Plan, how: How, nothing: str) -> None:
    rows = _rows(before, changes)
    if how.as_json:
        print_json(rows)
    elif rows:
        print_table(COLUMNS, rows)
    else:
        _say(nothing)


def _rows(before: Placement, changes: Plan) -> list[dict[str, object]]:
    return [
        {
            "topic": topic,
            "partition": index,
            "from": list(before.get((topic, index), ())),
            "to": list(changes[topic, index]),
        }
        for topic, index in sorted(changes)
    ]


def _begin(brokers: Brokers, found: Found, changes: Plan, how: How) -> None:
    """Set the throttle, also for moves in progress, and start the moves."""
    if how.throttle is not None:
        moves = dict(found.moving)
        for key, target in changes.items():
            now = found.moving[key].replicas if key in found.moving else found.placement[key]
            adding = tuple(broker for broker in target if broker not in now)
            removing = tuple(broker for broker in now if broker not in target)
            moves[key] = Moving((*now, *adding), adding, removing)
        throttle(brokers, moves, found.racks, how.throttle)
    if not changes:
        return
    refused = move(brokers, changes)
    if refused:
        (topic, index), why = min(refused.items())
        raise Failed(
            f"{len(refused)} of {len(changes)} partitions cannot be moved, such as "
            f"{topic}-{index}: "
            f"{why} The others are being moved; run this again when that is repaired"
        )


def _watch(brokers: Brokers, begun: Plan) -> Plan:
    """Wait until no reassignment is in progress. Returns the completed moves."""
    completed = dict(begun)
    remaining = -1
    while in_progress := moving(brokers):
        completed |= {key: reassignment.target for key, reassignment in in_progress.items()}
        if len(in_progress) != remaining:
            remaining = len(in_progress)
            _say(f"{len(completed) - remaining} of {len(completed)} partitions moved")
        time.sleep(_LOOKS_SECONDS)
    if completed:
        _say(f"{len(completed)} of {len(completed)} partitions moved")
    return completed


def _say(what: str) -> None:
    click.echo(what, err=True)
