"""A gate that is waited for: until everything holds at once, and goes on holding for a while."""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.gate.reasons import Check, Reason

_LOOKS_SECONDS: Final = 1.0


class Waited(NamedTuple):
    """No reasons: it is open."""

    reasons: Sequence[Reason]
    seconds: float


def wait(
    checks: Sequence[Check],
    *,
    within: float,
    steady: float,
    tell: Callable[[Sequence[Reason]], None],
) -> Waited:
    """Each look asks everybody. `tell` is called when the reasons are others than before. What is
    said at the end is what the last look found. The limit is passed by one look, and where nothing
    is wrong when it is reached, until that has held for long enough."""
    begun = time.monotonic()
    holds_since: float | None = None
    told: Sequence[Reason] = ()
    try:
        while True:
            started = time.monotonic()
            reasons = [reason for check in checks for reason in check.look()]
            now = time.monotonic()
            if reasons:
                holds_since = None
                if reasons != told:
                    tell(reasons)
                    told = reasons
                if now - begun >= within:
                    return Waited(reasons, now - begun)
            else:
                holds_since = started if holds_since is None else holds_since
                if now - holds_since >= steady:
                    return Waited((), now - begun)
            time.sleep(max(0.0, _LOOKS_SECONDS - (now - started)))
    finally:
        for check in checks:
            check.close()
