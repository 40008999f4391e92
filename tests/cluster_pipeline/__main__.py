"""`python -m tests.cluster_pipeline --minutes 10 --seed 1`: does every line arrive, whoever leads?

The whole pipeline on a cluster of three brokers, which are killed, stopped and frozen in turn while
an application writes. Exit code 0 if the verdict is green and every count is exact, 1 if something
is wrong, 2 if the run could not be made.
"""

import sys
from pathlib import Path

from tests.cluster_pipeline.choosing import troubles_of
from tests.cluster_pipeline.commanded import Commanded, main
from tests.cluster_pipeline.run import Outcome, run
from tests.cluster_pipeline.site import BROKERS


def _run(directory: Path, commanded: Commanded) -> Outcome:
    return run(
        directory,
        troubles_of(commanded.seed, range(1, BROKERS + 1)),
        seed=commanded.seed,
        seconds=commanded.seconds,
        load_every=commanded.load_every,
        say=commanded.say,
    )


if __name__ == "__main__":
    sys.exit(main("cluster_pipeline", __doc__, _run))
