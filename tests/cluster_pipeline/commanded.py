"""What the commands of the pipelines have in common: one run, its figures, what is wrong with it.

Exit code 0 if nothing is, 1 if something is, 2 if the run could not be made.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

import msgspec
from confluent_kafka import KafkaException

from client.errors import ClientError
from cluster.errors import EmbeddedError
from harness.server_process import ServerFailed
from tests.witness.reading import NotToTheEnd

REPOSITORY: Final = Path(__file__).resolve().parents[2]
ENVIRONMENT: Final = {"PYTHONDONTWRITEBYTECODE": ""}  # programs start compiled, as at a user's


class Commanded(msgspec.Struct, frozen=True):
    """What was asked for. `say` tells the user."""

    seed: int
    seconds: float  # of trouble
    load_every: float
    say: Callable[[str], None]


class Outcome(Protocol):
    @property
    def objections(self) -> tuple[str, ...]: ...
    def figures(self) -> list[str]: ...


def main(name: str, about: str | None, run: Callable[[Path, Commanded], Outcome]) -> int:
    options = _options(name, about)
    os.environ |= ENVIRONMENT
    # As Ctrl-C: whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {words}", flush=True)

    with ExitStack() as ends:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(dir=options.keep.resolve(), prefix="pipeline-"))
        else:
            made = tempfile.TemporaryDirectory(prefix="pipeline-", ignore_cleanup_errors=True)
            directory = Path(ends.enter_context(made))
        try:
            outcome = run(
                directory, Commanded(options.seed, options.minutes * 60, options.load_every, say)
            )
        except (
            *(ServerFailed, EmbeddedError, TimeoutError, OSError),
            *(KafkaException, ClientError, NotToTheEnd),
        ) as failure:
            say(f"no run: {type(failure).__name__}: {failure}")
            return 2
    for each in outcome.figures():
        say(each)
    for each in outcome.objections:
        say(f"WRONG  {each}")
    return int(bool(outcome.objections))


def _options(name: str, about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m tests.{name}", description=about)
    parser.add_argument("--minutes", type=float, default=10, help="of trouble")
    parser.add_argument("--seed", type=int, default=1, help="decides what happens to whom")
    parser.add_argument(
        "--load-every", type=float, default=120, help="seconds between loads meanwhile; 0: none"
    )
    parser.add_argument("--keep", type=Path, help="works in this folder, and leaves it there")
    return parser.parse_args()
