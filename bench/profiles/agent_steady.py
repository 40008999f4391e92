"""The cost of a shipper that keeps up: with busy files, idle files, and many slow ones."""

import time
from functools import partial
from pathlib import Path

from bench.contents.log_files import first_line, grow, growth
from bench.contents.log_lines import LINE_BYTES, Line, block, json_line, plain_line
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.processes import Meter
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.shipping_figures import CORES, LINES_PER_SECOND, PEAK, memory, spent
from bench.servers.shippers import Running, shipper_of, shipping

_RATE = 100_000
_PATIENCE = 300.0
_LINES_BEFORE = 10
_BEHIND = Figure("seconds behind at the end", 2)
_BATCHES = Figure("batches/s", 1)
_LINES_EACH = Figure("lines a batch", 1, more_is_better=True)


def steadily(context: CaseContext, *, line: Line, files: int, json: bool = False) -> Sample:
    """Measures the costs under a steady load, after a warm-up."""
    scale = context.scale
    with shipping(shipper_of(context), json=json) as running:
        paths = [running.watched / f"{number:04}.log" for number in range(files)]
        schedule = growth(paths, _RATE)
        content = block(line)
        warm_up_lines = grow(schedule, content, scale.warm_up_seconds)
        running.wait_for(warm_up_lines, within=_PATIENCE)
        start_time = time.perf_counter()
        with Meter(running.pid) as meter:
            lines = grow(schedule, content, scale.latency_seconds)
            growth_end = time.perf_counter()
            running.wait_for(warm_up_lines + lines, within=_PATIENCE)
        end_time = time.perf_counter()
        return {
            CORES: meter.broker_cpu / (end_time - start_time),
            LINES_PER_SECOND: lines / (end_time - start_time),
            **spent(meter, lines=lines, seconds=end_time - start_time),
            _BEHIND: end_time - growth_end,
        }


def _files(running: Running, count: int) -> list[Path]:
    """Files with some lines each, which have arrived."""
    paths = [running.watched / f"{number:04}.log" for number in range(count)]
    rest = block(plain_line)[: (_LINES_BEFORE - 1) * LINE_BYTES]
    for path in paths:
        path.write_bytes(first_line(path.stem) + rest)
    running.wait_for(count * _LINES_BEFORE, within=_PATIENCE)
    return paths


def _idle(context: CaseContext) -> Sample:
    with shipping(shipper_of(context)) as running:
        _files(running, context.scale.files)
        time.sleep(context.scale.warm_up_seconds)
        with Meter(running.pid) as meter:
            time.sleep(context.scale.latency_seconds)
        return {CORES: meter.broker_cpu / context.scale.latency_seconds, **memory(meter)}


def _trickle(context: CaseContext) -> Sample:
    """Every file grows by a line a second."""
    with shipping(shipper_of(context)) as running:
        paths = _files(running, context.scale.files)
        schedule = growth(paths, len(paths))
        batches = running.site.batches(running.topic)
        with Meter(running.pid) as meter:
            lines = grow(schedule, block(plain_line), context.scale.latency_seconds)
            running.wait_for(len(paths) * _LINES_BEFORE + lines, within=_PATIENCE)
        batches = running.site.batches(running.topic) - batches
        return {
            _BATCHES: batches / context.scale.latency_seconds,
            _LINES_EACH: lines / batches,
            CORES: meter.broker_cpu / context.scale.latency_seconds,
            **memory(meter),
        }


_SMALL = Goal(PEAK, at_most=80)

PROFILE = Profile(
    "agent-steady",
    f"files that grow by {_RATE:,} lines of 200 bytes a second in all; 1,000 idle; 1,000 trickling",
    (
        Case(
            "plain, one file",
            partial(steadily, line=plain_line, files=1),
            (Goal(CORES, at_most=0.25, ahead=True), _SMALL),
        ),
        Case(
            "plain, 100 files",
            partial(steadily, line=plain_line, files=100),
            (Goal(CORES, at_most=0.25, ahead=True), _SMALL),
        ),
        Case(
            "JSON, one file",
            partial(steadily, line=json_line, files=1, json=True),
            (_SMALL,),
        ),
        Case("1,000 idle files", _idle, (Goal(CORES, at_most=0.01),)),
        Case(
            "1,000 files, a line a second from each",
            _trickle,
            (Goal(_BATCHES, at_most=11),),
        ),
    ),
)
