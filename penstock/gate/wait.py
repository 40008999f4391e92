"""Waits until all checks pass in the same round, and keep passing for a while."""

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
    """Runs all checks every second, and calls `tell` when the reasons have changed. Returns the
    reasons of the last round. Checks that all pass when the limit is reached still get the time to
    hold for `steady` seconds."""
    start = time.monotonic()
    passing_since: float | None = None
    reported_reasons: Sequence[Reason] = ()
    try:
        while True:
            round_start = time.monotonic()
            reasons = [reason for check in checks for reason in check.look()]
            now = time.monotonic()
            if reasons:
                passing_since = None
                if reasons != reported_reasons:
                    tell(reasons)
                    reported_reasons = reasons
                if now - start >= within:
                    return Waited(reasons, now - start)
            else:
                passing_since = round_start if passing_since is None else passing_since
                if now - passing_since >= steady:
                    return Waited((), now - start)
            time.sleep(max(0.0, _LOOKS_SECONDS - (now - round_start)))
    finally:
        for check in checks:
            check.close()
