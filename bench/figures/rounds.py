"""Runs a profile on every broker: A B A B, after a round that is not counted.

The brokers of a profile are all up during it, one of them idle at a time; a profile that runs once
has one broker up at a time. What was written before is flushed before a run starts, so that no run
pays for the one before it. A case that fails on one broker is reported and takes no other with it.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from bench.figures.measurement import NotMeasured, Outcome
from bench.figures.profile import Case, CaseContext, Profile, Results, Scale, Server, ServerKind
from bench.loads.librdkafka import Incomplete
from bench.loads.requests import AnswerError
from harness.processes.server_process import ServerFailed

Outcomes = dict[tuple[str, str], Outcome]
FAILURES = (
    AnswerError,
    Incomplete,
    KafkaException,
    OSError,
    ServerFailed,
    subprocess.SubprocessError,
)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _failure(error: Exception, where: str, server: Server) -> str:
    """Told at once, with the broker's last words: its directory will be gone."""
    failure = f"{type(error).__name__}: {error}"
    _say(f"    {where}: {failure}\n{server.last_words(10)}")
    return failure


def _prepare(profile: Profile, context: CaseContext, outcomes: Outcomes) -> None:
    if profile.prepare is None:
        return
    _say(f"  preparing {context.server.name}")
    try:
        profile.prepare(context)
    except FAILURES as error:
        failure = _failure(error, f"preparing {context.server.name}", context.server)
        for (_, name), outcome in outcomes.items():
            if name == context.server.name:
                outcome.failure = failure


def _run(case: Case, context: CaseContext, outcomes: Outcomes, *, counted: bool) -> None:
    outcome = outcomes[case.name, context.server.name]
    if outcome.failure is not None:
        return
    os.sync()
    try:
        sample = case.run(context)
    except NotMeasured as missing:
        outcome.failure, outcome.skipped = str(missing), True
        _say(f"    {case.name}: {missing}")
        return
    except FAILURES as error:
        outcome.failure = _failure(error, f"{case.name}, {context.server.name}", context.server)
        return
    if counted:
        outcome.samples.append(sample)
    figure, value = next(iter(sample.items()))
    _say(f"    {case.name}, {context.server.name}: {figure.text(value)} {figure.name}")


def measure(
    profile: Profile,
    kinds: Mapping[str, ServerKind],
    scale: Scale,
    *,
    rounds: int,
    directory: Path,
    files: Path,
    only: Sequence[str] = (),
) -> Results:
    """All cases of the profile (or those whose names contain a word of `only`) on all brokers."""
    cases = [case for case in profile.cases if not only or any(word in case.name for word in only)]
    outcomes: Outcomes = {(case.name, kind): Outcome() for case in cases for kind in kinds}
    groups = [[name] for name in kinds] if profile.once else [list(kinds)]
    for group in groups:
        with contextlib.ExitStack() as stack:
            places = []
            for name in group:
                _say(f"  starting {name}")
                home = stack.enter_context(tempfile.TemporaryDirectory(dir=directory))
                server = stack.enter_context(kinds[name](Path(home)))
                places.append(CaseContext(server, scale, files))
            for context in places:
                _prepare(profile, context, outcomes)
            _rounds(profile, cases, places, outcomes, rounds)
    return Results(profile, tuple(cases), tuple(kinds), outcomes)


def _rounds(
    profile: Profile,
    cases: Sequence[Case],
    places: Sequence[CaseContext],
    outcomes: Outcomes,
    rounds: int,
) -> None:
    if not profile.once and places[0].scale.warm_up:
        _say("  warming up")
        for case in cases:
            for context in places:
                warm = CaseContext(context.server, context.scale.for_warming_up(), context.files)
                _run(case, warm, outcomes, counted=False)
    for number in range(1 if profile.once else rounds):
        _say(f"  round {number + 1}")
        for case in cases:
            for context in places:
                _run(case, context, outcomes, counted=True)
