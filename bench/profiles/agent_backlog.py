"""The speed of shipping existing lines: plain and JSON, in one file and in many.

The clock runs from the appearance of the files in the watched directory until the last of their
lines can be consumed.
"""

import time
from collections.abc import Callable
from functools import partial

from bench.contents.log_files import put, write_backlog
from bench.contents.log_lines import (
    BLOCK_LINES,
    around_the_end_of_a_window,
    at_times,
    block,
    json_line,
    plain_line,
)
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.processes import Meter
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.shipping_figures import LINES_PER_SECOND, LOG_BYTES, PEAK, spent
from bench.servers.shippers import shipper_of, shipping

_PATIENCE = 600.0
_RATIO = Figure("of the rate in order", 2, more_is_better=True)

Content = Callable[[], bytes]


def _in_order() -> bytes:
    return at_times(json_line, sorted(around_the_end_of_a_window(BLOCK_LINES)))


def _out_of_order() -> bytes:
    return at_times(json_line, around_the_end_of_a_window(BLOCK_LINES))


def _ship(
    context: CaseContext, *, name: str, content: Content, files: int = 1, json: bool = False
) -> dict[Figure, float]:
    lines = context.scale.lines // (3 if json else 1)
    backlog = context.files / f"{name}-{lines}"
    lines = write_backlog(backlog, content(), lines=lines, files=files)
    with shipping(shipper_of(context), json=json) as running:
        start_time = time.perf_counter()
        with Meter(running.pid) as meter:
            put(backlog, running.watched)
            running.wait_for(lines, within=_PATIENCE)
        seconds = time.perf_counter() - start_time
        return {
            LINES_PER_SECOND: lines / seconds,
            **spent(meter, lines=lines, seconds=seconds),
            LOG_BYTES: running.site.log_bytes(running.topic) / lines,
        }


def _jitter(context: CaseContext) -> Sample:
    """The same times, sorted and unsorted."""
    ordered_sample = _ship(context, name="json-ordered", content=_in_order, json=True)
    mixed_sample = _ship(context, name="json-mixed", content=_out_of_order, json=True)
    ratio = mixed_sample[LINES_PER_SECOND] / ordered_sample[LINES_PER_SECOND]
    return {_RATIO: ratio, **mixed_sample}


_AHEAD = Goal(LINES_PER_SECOND, ahead=True)
_SMALL = Goal(PEAK, at_most=80)

PROFILE = Profile(
    "agent-backlog",
    "lines of 200 bytes that are there at once, a shipper on one core",
    (
        Case(
            "plain",
            partial(_ship, name="plain", content=partial(block, plain_line)),
            (Goal(LINES_PER_SECOND, at_least=1_000_000, ahead=True), _SMALL),
        ),
        Case(
            "JSON, six typed fields and a time",
            partial(_ship, name="json", content=partial(block, json_line), json=True),
            (Goal(LINES_PER_SECOND, at_least=300_000, ahead=True), _SMALL),
        ),
        Case(
            "plain, in 100 files",
            partial(_ship, name="plain-100", content=partial(block, plain_line), files=100),
            (_AHEAD, _SMALL),
        ),
        Case(
            "JSON, times up to 30 s around a window's end",
            _jitter,
            (Goal(_RATIO, at_least=0.7), _SMALL),
        ),
    ),
)
