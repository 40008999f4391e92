"""Is the audit's verdict ever wrong? Seeds of writing, rotating, killing and spoiling; those of a
group run side by side on one pipeline, each with an agent and a topic of its own."""

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.campaigns.command import REPOSITORY, Campaign, Runner
from tests.campaigns.outcomes import Outcome, Say
from tests.campaigns.witness.batch import run
from tests.campaigns.witness.pipeline import Pipeline
from tests.campaigns.witness.script import ACTIONS, GROUP, KINDS, Script, script_of


class WitnessCampaign(Campaign):
    name = "witness"
    about = __doc__
    runs = side_by_side = GROUP
    scripts = Script
    actions = ACTIONS
    judges_again = False

    def options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--penstock", type=Path, default=REPOSITORY, help="another checkout")
        add("--kafka", action="store_true", help="Apache Kafka for the broker")
        add("--brokers", type=int, default=1, help="with every partition on all of them")
        add("--only", action="append", choices=KINDS, default=[], help="faults that may happen")
        add("--with-kept", action="store_true", help="open files outlive the agent in every run")
        add("--work-in", type=Path, help="works in this folder, and leaves it there")

    def script_of(self, seed: int, options: Namespace) -> Script:
        cluster = options.brokers > 1
        return script_of(seed, options.only, cluster=cluster, kept=options.with_kept)

    @contextmanager
    def runner(self, options: Namespace, say: Say) -> Iterator[Runner]:
        """On one pipeline, or, where a whole batch could not be run, once more on another one."""
        with ExitStack() as ends:
            kept: list[Pipeline] = []

            def run_batch(scripts: Sequence[Script]) -> Sequence[Outcome]:
                outcomes: Sequence[Outcome] = ()
                for _ in range(2):
                    fills = any(each.verb == "fill-broker-disk" for each in scripts[0].shared)
                    if kept and fills and not kept[0].has_small_disk:
                        _end(kept, ends)
                    if not kept:
                        kept.append(_pipeline(options, ends, small_disk=fills))
                    outcomes = run(kept[0], scripts, say)
                    if not all(each.error for each in outcomes):
                        break
                    _end(kept, ends)
                return outcomes

            yield run_batch


CAMPAIGNS: Final = {"witness": WitnessCampaign()}


def _pipeline(options: Namespace, ends: ExitStack, *, small_disk: bool) -> Pipeline:
    if options.work_in:
        options.work_in.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(dir=options.work_in.resolve(), prefix="pipeline-"))
    else:
        made = tempfile.TemporaryDirectory(prefix="witness-", ignore_cleanup_errors=True)
        directory = Path(ends.enter_context(made))
    return ends.enter_context(
        Pipeline(
            directory,
            options.penstock.resolve(),
            kafka=options.kafka,
            small_disk=small_disk,
            brokers=options.brokers,
        )
    )


def _end(kept: list[Pipeline], ends: ExitStack) -> None:
    kept.clear()
    ends.pop_all().close()
