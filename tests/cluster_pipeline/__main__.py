"""`python -m tests.cluster_pipeline --minutes 10 --seed 1`: does every line arrive, whoever leads?

The whole pipeline on a cluster of three brokers, which are killed, stopped and frozen in turn while
an application writes. Exit code 0 if the verdict is green and every count is exact, 1 if something
is wrong, 2 if the run could not be made.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from cluster.errors import EmbeddedError
from harness.server_process import ServerFailed
from tests.cluster_pipeline.choosing import troubles_of
from tests.cluster_pipeline.run import run
from tests.cluster_pipeline.site import BROKERS
from tests.witness.reading import NotToTheEnd

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Programs start as at a user's: without hypothesis, and compiled.
ENVIRONMENT: Final = {"PYTHONPATH": f"{REPOSITORY}/tests/as_users", "PYTHONDONTWRITEBYTECODE": ""}


def main() -> int:
    options = _options()
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
                directory,
                troubles_of(options.seed, range(1, BROKERS + 1)),
                seed=options.seed,
                seconds=options.minutes * 60,
                load_every=options.load_every,
                say=say,
            )
        except (
            *(ServerFailed, EmbeddedError, TimeoutError, OSError),
            *(KafkaException, NotToTheEnd),
        ) as failure:
            say(f"no run: {type(failure).__name__}: {failure}")
            return 2
    for each in outcome.figures():
        say(each)
    for each in outcome.objections:
        say(f"WRONG  {each}")
    return int(bool(outcome.objections))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster_pipeline", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of trouble")
    parser.add_argument("--seed", type=int, default=1, help="decides what happens to whom")
    parser.add_argument(
        "--load-every", type=float, default=120, help="seconds between loads meanwhile; 0: none"
    )
    parser.add_argument("--keep", type=Path, help="works in this folder, and leaves it there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
