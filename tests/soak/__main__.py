"""`python -m tests.soak --hours 2`: does anything grow while the whole pipeline runs under faults?

The pipeline of `make pipeline` for hours. Memory, descriptors and threads of each process, what its
files take, and what ZooKeeper holds are written down all the while. Exit code 0 if each line is
accounted for and nothing grows, 1 if something is wrong, 2 if the run could not be made.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from bench import machine
from client.errors import ClientError
from cluster.errors import EmbeddedError
from harness.server_process import ServerFailed
from tests.cluster_pipeline.commanded import ENVIRONMENT, REPOSITORY
from tests.session_mark import SESSION, processes_with
from tests.soak import sampling
from tests.soak.flatness import Kind
from tests.soak.pace import Pace
from tests.soak.plot import drawn
from tests.soak.run import SAMPLES, TROUBLES, Accounted, run
from tests.soak.verdict import judged, objections, table
from tests.witness.reading import NotToTheEnd

_BESIDE: Final = 3600.0  # to start, to rest, to load and to judge; on a busy machine too
_RUN: Final = "run.json"
_VERDICT: Final = "verdict.md"
_PLOT: Final = "soak.svg"
Say = Callable[[str], None]


class NotOver(Exception):
    """The time that a run may take at most has passed."""


def main() -> int:
    options = _options()
    if options.judge:
        return _judge(options.judge, _say)
    results = options.results or REPOSITORY / ".cache" / "soak" / time.strftime("%Y%m%d-%H%M%S")
    results.mkdir(parents=True, exist_ok=True)
    os.environ |= ENVIRONMENT
    # As Ctrl-C: whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    pace = Pace(options.hours * 3600)
    began = time.monotonic()

    def say(words: str) -> None:
        _say(f"{time.monotonic() - began:6.0f} s  {words}")

    about = {
        "hours": options.hours,
        "seed": options.seed,
        "began": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "commit": machine.commit(),
        "machine": machine.description(results),
    }
    try:
        with _nothing_left(say) as left, _at_most(pace.seconds + _BESIDE), ExitStack() as ends:
            made = tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True)
            directory = Path(ends.enter_context(made))
            ends.callback(_keep_outputs, directory, results / "programs")
            accounted = run(directory, results, pace, options.seed, say)
    except (
        *(ServerFailed, EmbeddedError, TimeoutError, OSError),
        *(KafkaException, ClientError, NotToTheEnd, NotOver),
    ) as failure:
        say(f"no run: {type(failure).__name__}: {failure}")
        return 2
    accounted = Accounted((*accounted.objections, *left), accounted.figures)
    about |= {"figures": accounted.figures, "objections": accounted.objections}
    about |= {"load at end": f"{os.getloadavg()[0]:.2f}"}
    (results / _RUN).write_text(json.dumps(about, indent=1) + "\n")
    return _judge(results, say)


def _judge(results: Path, say: Say) -> int:
    """What a run has left in this folder: its verdict and its picture are made anew."""
    about = json.loads((results / _RUN).read_text())
    pace = Pace(about["hours"] * 3600)
    series = sampling.read(results / SAMPLES)
    found = judged(series, pace.span)
    wrong = [*about["objections"], *objections(found)]
    with (results / TROUBLES).open(newline="") as file:
        troubles = [float(row["seconds"]) for row in csv.DictReader(file)]
    title = f"{about['hours']:g} hours of the pipeline under faults, from {about['began']}"
    warm = {kind: pace.span(kind).warm for kind in Kind}
    (results / _PLOT).write_text(drawn(title, series, warm, troubles))
    said = [*about["figures"], *(f"WRONG  {each}" for each in wrong)]
    text = [f"# {title}", "", *(f"- {each}" for each in said), "", table(found), ""]
    (results / _VERDICT).write_text("\n".join(text))
    _say(table(found))
    for each in said:
        say(each)
    say(f"{'wrong' if wrong else 'right'}; in {results}")
    return int(bool(wrong))


@contextmanager
def _nothing_left(say: Say) -> Iterator[list[str]]:
    """Each process that was started within is known by a mark. One that is still there in the end
    is killed, and said."""
    mark = f"soak-{os.getpid()}"
    os.environ[SESSION] = mark
    found: list[str] = []
    try:
        yield found
    finally:
        for process, command in processes_with(mark):
            found.append(f"left behind: {command}")
            say(found[-1])
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def over(*_: object) -> None:
        raise NotOver(f"the run is not over within {seconds:.0f} s")

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _keep_outputs(directory: Path, to: Path) -> None:
    """What programs have said, for whoever looks for the reason of something."""
    to.mkdir(exist_ok=True)
    for path in (*directory.glob("*.log"), *directory.glob("*/*.log")):
        name = f"{path.parent.name}-{path.name}" if path.parent != directory else path.name
        shutil.copyfile(path, to / name)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2, help="how long; 0.1 will do to try it")
    parser.add_argument("--seed", type=int, default=1, help="decides what happens to whom")
    parser.add_argument("--results", type=Path, help="where samples, plot and verdict are left")
    parser.add_argument("--judge", type=Path, help="judges what a run left here, and runs nothing")
    return parser.parse_args()


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
