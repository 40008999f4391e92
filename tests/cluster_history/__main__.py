"""`python -m tests.cluster_history --seed 1 --runs 10`: does a cluster keep what it promises?"""

import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from tests.cluster_history.broken import FLAWS
from tests.cluster_history.choosing import KINDS, SCENES, script_of
from tests.cluster_history.run import judge_again, run
from tests.cluster_history.script import Script, parse
from tests.seeded_runs import Runs


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--factor", type=int, default=3, help="replicas of each partition")
    parser.add_argument("--scenes", type=int, default=SCENES, help="of a script")
    parser.add_argument(
        "--only", action="append", choices=KINDS, default=[], help="faults that may happen"
    )
    parser.add_argument("--zookeepers", type=int, default=1)


def _script_of(seed: int, options: Namespace) -> Script:
    return script_of(
        seed,
        brokers=options.brokers,
        factor=options.factor,
        kinds=options.only,
        zookeepers=options.zookeepers,
        scenes=options.scenes,
    )


RUNS: Final = Runs(
    name="cluster-history",
    about=__doc__ or "",
    options=_options,
    script_of=_script_of,
    parse=parse,
    run=run,
    judge_again=judge_again,
    flaws=FLAWS,
)

if __name__ == "__main__":
    sys.exit(RUNS.main())
