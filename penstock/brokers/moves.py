"""Plans moves of replicas, starts them, and watches them until they are completed."""

import time
from collections.abc import Callable
from typing import Final

import click
import msgspec

from client.admin.reassignments import Moving, move, moving, take_throttle_away, throttle
from client.connection.brokers import Brokers
from penstock.brokers.cluster_state import POLL_SECONDS, ClusterState, Plan, settled_state
from penstock.brokers.placement import NoPlace, Placement
from penstock.cli.failures import Failed
from penstock.cli.output import print_json, print_table

COLUMNS: Final = ("topic", "partition", "from", "to")


class MoveOptions(msgspec.Struct, frozen=True, kw_only=True):
    dry_run: bool
    no_wait: bool
    throttle: int | None  # bytes per second
    as_json: bool


def carry_out(
    brokers: Brokers,
    state: ClusterState,
    plan: Callable[[ClusterState], Plan],
    options: MoveOptions,
    *,
    nothing: str,
    done: str,
    rounds: int,
) -> None:
    """Plans and carries out moves until none is needed, in at most `rounds` rounds, since topics
    may be created meanwhile. `nothing` is the message if there was nothing to move, `done` the
    message at the end."""
    all_changes: Plan = {}
    placement = state.placement
    topics = {topic for topic, _ in state.moving}
    changes = _planned(plan, state)
    if options.dry_run:
        _show(placement, changes, options, nothing)
        return
    for _ in range(rounds):
        topics |= {topic for topic, _ in changes}
        _start(brokers, state, changes, options)
        all_changes |= changes
        if options.no_wait:
            break
        state = settled_state(brokers, _watch(brokers, changes))
        changes = _planned(plan, state)
        if not changes:
            break
    if options.as_json:
        print_json(_rows(placement, all_changes))
    if options.no_wait:
        _report(f"{len(all_changes)} partitions are being moved: penstock brokers list shows them")
        return
    # Also throttles of moves that another command started.
    if take_throttle_away(brokers, state.cluster.topics, sorted(state.racks)):
        _report("the throttle was removed")
    _report(done if all_changes or topics else nothing)


def _planned(plan: Callable[[ClusterState], Plan], state: ClusterState) -> Plan:
    try:
        return plan(state)
    except NoPlace as error:
        raise Failed(f"{error}: nothing was moved") from None


def _show(before: Placement, changes: Plan, options: MoveOptions, nothing: str) -> None:
    rows = _rows(before, changes)
    if options.as_json:
        print_json(rows)
    elif rows:
        print_table(COLUMNS, rows)
    else:
        _report(nothing)


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


def _start(brokers: Brokers, state: ClusterState, changes: Plan, options: MoveOptions) -> None:
    """Sets the throttle, also for moves in progress, and starts the moves."""
    if options.throttle is not None:
        moves = dict(state.moving)
        for key, target in changes.items():
            replicas = state.moving[key].replicas if key in state.moving else state.placement[key]
            added_brokers = tuple(broker for broker in target if broker not in replicas)
            removed_brokers = tuple(broker for broker in replicas if broker not in target)
            moves[key] = Moving((*replicas, *added_brokers), added_brokers, removed_brokers)
        throttle(brokers, moves, state.racks, options.throttle)
    if not changes:
        return
    refusals = move(brokers, changes)
    if refusals:
        (topic, index), reason = min(refusals.items())
        raise Failed(
            f"{len(refusals)} of {len(changes)} partitions cannot be moved, such as "
            f"{topic}-{index}: "
            f"{reason} The others are being moved; repair the cause, and run this command again"
        )


def _watch(brokers: Brokers, started: Plan) -> Plan:
    """Waits until no reassignment is in progress. Returns the completed moves."""
    moves = dict(started)
    count = -1
    while reassignments := moving(brokers):
        moves |= {key: reassignment.target for key, reassignment in reassignments.items()}
        if len(reassignments) != count:
            count = len(reassignments)
            _report(f"{len(moves) - count} of {len(moves)} partitions moved")
        time.sleep(POLL_SECONDS)
    if moves:
        _report(f"{len(moves)} of {len(moves)} partitions moved")
    return moves


def _report(message: str) -> None:
    click.echo(message, err=True)
