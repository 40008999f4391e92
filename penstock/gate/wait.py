"""Waits until all checks pass at once, and keep passing for a while."""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.gate.reasons import Check, Reason

_LOOKS_SECONDS: Final = 1.0


class Waited(NamedTuple):
    """The outcome of waiting; without reasons, the gate has passed."""

    reasons: Sequence[Reason]
    seconds: float


def wait(
    checks: Sequence[Check],
    *,
    within: float,
    steady: float,
    tell: Callable[[Sequence[Reason]], None],
) -> Waited:
    """Runs all checks every second, and calls `tell` when the reasons have changed. The result has
    the reasons of the last round. If all checks pass when the limit is reached, they get the time
    to hold for `steady` seconds."""
    began = time.monotonic()
    holds_since: float | None = None
    reported: Sequence[Reason] = ()
    try:
        while True:
            started = time.monotonic()
            reasons = [reason for check in checks for reason in check.look()]
            now = time.monotonic()
            if reasons:
                holds_since = None
                if reasons != reported:
                    tell(reasons)
                    reported = reasons
                if now - began >= within:
                    return Waited(reasons, now - began)
            else:
                holds_since = started if holds_since is None else holds_since
                if now - holds_since >= steady:
                    return Waited((), now - began)
            time.sleep(max(0.0, _LOOKS_SECONDS - (now - started)))
    finally:
        for check in checks:
            check.close()
