"""`python -m tests.mirror_history --seed 1 --runs 10`: is a copy what its source is?"""

import logging
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from tests.cluster_history.script import Script
from tests.mirror_history.broken import FLAWS
from tests.mirror_history.choosing import BROKERS, KINDS, SCENES, script_of
from tests.mirror_history.run import judge_again, run
from tests.mirror_history.script import parse
from tests.seeded_runs import Runs


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--brokers", type=int, default=BROKERS, help="of each cluster")
    parser.add_argument("--scenes", type=int, default=SCENES, help="of a script")
    parser.add_argument(
        "--only", action="append", choices=KINDS, default=[], help="what may go wrong"
    )
    parser.add_argument("--long", action="store_true", help="links are cut for minutes")


def _script_of(seed: int, options: Namespace) -> Script:
    return script_of(
        seed,
        kinds=options.only,
        scenes=options.scenes,
        brokers=options.brokers,
        long=options.long,
    )


RUNS: Final = Runs(
    name="mirror-history",
    about=__doc__ or "",
    options=_options,
    script_of=_script_of,
    parse=parse,
    run=run,
    judge_again=judge_again,
    flaws=FLAWS,
)

if __name__ == "__main__":
    # That ZooKeeper is away is no news here.
    logging.getLogger("cluster").addHandler(logging.NullHandler())
    sys.exit(RUNS.main())
