"""`python -m tests.group_history --seed 1 --runs 10`: do groups get what is promised?"""

import logging
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from tests.cluster_history.script import Script
from tests.group_history.broken import FLAWS
from tests.group_history.choosing import SCENES, script_of
from tests.group_history.run import judge_again, run
from tests.group_history.script import GROUPS, parse
from tests.seeded_runs import Runs


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--scenes", type=int, default=SCENES, help="of a script")
    parser.add_argument(
        "--group", action="append", choices=[*GROUPS], default=[], help="groups that there are"
    )


def _script_of(seed: int, options: Namespace) -> Script:
    return script_of(seed, groups=options.group, scenes=options.scenes)


RUNS: Final = Runs(
    name="group-history",
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
