"""Runs a profile on every broker in turn (A B A B), after a warm-up round that does not count.

All brokers of a profile are up; only one is busy at a time. In a profile that runs once, only one
broker is up. Earlier writes are flushed before each run, so that no run pays for the one before.
A failed case is reported and affects no other.
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


def _log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _failure(error: Exception, where: str, server: Server) -> str:
    """Log the failure with the broker's last words, as its directory will be removed."""
    failure = f"{type(error).__name__}: {error}"
    _log(f"    {where}: {failure}\n{server.last_words(10)}")
    return failure


def _prepare(profile: Profile, context: CaseContext, outcomes: Outcomes) -> None:
    if profile.prepare is None:
        return
    _log(f"  preparing {context.server.name}")
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
        _log(f"    {case.name}: {missing}")
        return
    except FAILURES as error:
        outcome.failure = _failure(error, f"{case.name}, {context.server.name}", context.server)
        return
    if counted:
        outcome.samples.append(sample)
    figure, value = next(iter(sample.items()))
    _log(f"    {case.name}, {context.server.name}: {figure.text(value)} {figure.name}")


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
    """Runs the profile's cases on all brokers; with `only`, those whose names contain one of its
    words."""
    cases = [case for case in profile.cases if not only or any(word in case.name for word in only)]
    outcomes: Outcomes = {(case.name, kind): Outcome() for case in cases for kind in kinds}
    groups = [[name] for name in kinds] if profile.once else [list(kinds)]
    for group in groups:
        with contextlib.ExitStack() as stack:
            contexts = []
            for name in group:
                _log(f"  starting {name}")
                home = stack.enter_context(tempfile.TemporaryDirectory(dir=directory))
                server = stack.enter_context(kinds[name](Path(home)))
                contexts.append(CaseContext(server, scale, files))
            for context in contexts:
                _prepare(profile, context, outcomes)
            _rounds(profile, cases, contexts, outcomes, rounds)
    return Results(profile, tuple(cases), tuple(kinds), outcomes)


def _rounds(
    profile: Profile,
    cases: Sequence[Case],
    contexts: Sequence[CaseContext],
    outcomes: Outcomes,
    rounds: int,
) -> None:
    if not profile.once and contexts[0].scale.warm_up:
        _log("  warming up")
        for case in cases:
            for context in contexts:
                warm_up = CaseContext(context.server, context.scale.for_warming_up(), context.files)
                _run(case, warm_up, outcomes, counted=False)
    for number in range(1 if profile.once else rounds):
        _log(f"  round {number + 1}")
        for case in cases:
            for context in contexts:
                _run(case, context, outcomes, counted=True)
