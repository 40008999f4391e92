"""`python -m tests.mirror_pipeline --minutes 10 --seed 1`: do lines of two datacenters arrive at an
offline cluster, whatever fails, and is the one that does not named?

Exit code 0 if the verdict is green, every count is exact and the line that was taken away is named;
1 if something is wrong, 2 if the run could not be made.
"""

import sys
from pathlib import Path

from tests.cluster_pipeline.commanded import Commanded, main
from tests.mirror_pipeline.choosing import troubles_of
from tests.mirror_pipeline.run import Outcome, run
from tests.mirror_pipeline.topology import victims


def _run(directory: Path, commanded: Commanded) -> Outcome:
    return run(
        directory,
        troubles_of(commanded.seed, victims()),
        seed=commanded.seed,
        seconds=commanded.seconds,
        load_every=commanded.load_every,
        say=commanded.say,
    )


if __name__ == "__main__":
    sys.exit(main("mirror_pipeline", __doc__, _run))
