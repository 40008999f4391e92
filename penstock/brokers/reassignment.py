"""`penstock brokers drain` and `fill`: move replicas off a broker, and onto new ones.

placement.py plans the moves; moves.py starts and watches them. If a command ends early, the brokers
continue; called again, it goes on watching, and removes the throttle at the end.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from penstock.brokers.cluster_state import settled_state
from penstock.brokers.moves import MoveOptions, carry_out
from penstock.brokers.placement import drained, filled
from penstock.cli.failures import Failed
from penstock.cli.finite_range import FiniteRange
from penstock.cli.output import json_option
from penstock.connections.cluster import bootstrap_option, connected

_DRAIN_ROUNDS: Final = 5  # topics may be created meanwhile

F = TypeVar("F", bound=Callable[..., Any])


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
    options = _options(dry_run, no_wait, throttle, as_json)
    with connected(bootstrap) as brokers:
        state = settled_state(brokers)
        holders = {replica for replicas in state.placement.values() for replica in replicas}
        sources = {replica for move in state.moving.values() for replica in move.removing}
        if broker not in {*holders, *sources, *state.racks}:
            raise Failed(f"no broker {broker}: it is not in the cluster, and has no replicas")
        carry_out(
            brokers,
            state,
            lambda current: drained(current.placement, current.racks, broker),
            options,
            nothing=f"broker {broker} has no replicas",
            done=f"broker {broker} has no replicas any more: stop it before topics are created",
            rounds=_DRAIN_ROUNDS,
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
    options = _options(dry_run, no_wait, throttle, as_json)
    with connected(bootstrap) as brokers:
        state = settled_state(brokers)
        for broker in new:
            if broker not in state.racks:
                raise Failed(f"no broker {broker} in the cluster")
        names = ", ".join(map(str, new))
        carry_out(
            brokers,
            state,
            lambda current: filled(current.placement, current.racks, set(new)),
            options,
            nothing=f"nothing to move: broker {names} has its share",
            done=f"broker {names} now has its share of the replicas",
            rounds=1,
        )


def _options(dry_run: bool, no_wait: bool, throttle: float | None, as_json: bool) -> MoveOptions:
    rate = None if throttle is None else int(throttle)
    return MoveOptions(dry_run=dry_run, no_wait=no_wait, throttle=rate, as_json=as_json)
