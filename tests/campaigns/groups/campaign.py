"""Do groups of consumers get what they are promised, whatever is killed or frozen, and whatever
members say?

A run leaves

    brokers/…      the brokers' configuration, output and data, ZooKeeper's
    told/*.jsonl   what happened, by who has told it; *.log is what members have said
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.processes.waiting import wait_until
from tests.campaigns.bugs import bugs_of
from tests.campaigns.cluster.campaign import BROKERS, PENSTOCK, stopped
from tests.campaigns.cluster.script import Script
from tests.campaigns.command import Campaign
from tests.campaigns.flaws import BROKEN
from tests.campaigns.groups import events
from tests.campaigns.groups.broken import FLAWS
from tests.campaigns.groups.broken import __name__ as broken_program
from tests.campaigns.groups.events import END, Event, Fetched
from tests.campaigns.groups.judging import Case, judge, unread
from tests.campaigns.groups.member import Place
from tests.campaigns.groups.members import Members
from tests.campaigns.groups.nemesis import Nemesis, committed_of
from tests.campaigns.groups.script import ACTIONS, GROUPS, PAPER, SCENES, groups_of, script_of
from tests.campaigns.groups.topic import Growth, Watcher, Writer
from tests.campaigns.history import History, Notebook, Trouble
from tests.campaigns.outcomes import SCRIPT, Objection, Outcome, Say, outcome_of
from tests.system.crash import finish_all

TOLD: Final = "told"
TOPIC: Final = "numbers"
PARTITIONS: Final = 5
SETTLES: Final = 120.0


class GroupsCampaign(Campaign):
    name = "groups"
    about = __doc__
    scripts = Script
    actions = ACTIONS
    flaws = FLAWS

    def options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--scenes", type=int, default=SCENES, help="of a script")
        add("--group", action="append", choices=[*GROUPS], default=[], help="that there are")

    def script_of(self, seed: int, options: Namespace) -> Script:
        return script_of(seed, groups=options.group, scenes=options.scenes)

    def run(self, script: Script, directory: Path, say: Say, *, broken: str = "") -> Outcome:
        def play() -> Sequence[Objection]:
            _Run(script, directory, say, broken).play()
            return self.judge_again(directory)

        return outcome_of(script, directory, play, lambda: _counts(directory))

    def judge_again(self, directory: Path) -> Sequence[Objection]:
        script = self.parse((directory / SCRIPT).read_text())
        history = History.load(directory / TOLD, Event)
        return judge(Case(history, groups_of(script.actions)))


CAMPAIGNS: Final = {"groups": GroupsCampaign()}


def _counts(directory: Path) -> dict[str, int]:
    told = History.load(directory / TOLD, Event)
    codes = [each.code for each in told.of(events.Committed)]
    return {
        "records written": len(told.of(events.Written)),
        "records read": sum(each.last - each.first + 1 for each in told.of(events.Read)),
        "commits": len(codes),
        "commits acknowledged": codes.count(0),
        "offsets fetched": len(told.of(Fetched)),
        "generations": len({(each.group, each.generation) for each in told.of(events.Saved)}),
    }


class _Run:
    """A cluster, a writer, groups, what is done to them, and rest."""

    def __init__(self, script: Script, directory: Path, say: Say, broken: str) -> None:
        self._script, self._say = script, say
        self._told = directory / TOLD
        self._told.mkdir()
        self._groups = groups_of(script.actions)
        (directory / BROKERS).mkdir()
        self._cluster = BrokerCluster(
            directory / BROKERS,
            brokers=script.brokers,
            settings={
                "zookeeper_session_seconds": script.session,
                "groups": {"initial_rebalance_delay": 0.2},
                "replication": {"lag_seconds": 6.0},
            },
            environments={each: {BROKEN: broken} for each in range(1, script.brokers + 1)},
            program=broken_program if broken else PENSTOCK,
        )
        self._began = time.monotonic()
        self._notebook = Notebook(self._told, "run", self._began)

    def play(self) -> None:
        try:
            with self._cluster as cluster:
                configs = {"min.insync.replicas": str(self._script.in_sync)}
                replicas = self._script.replicas(PARTITIONS)
                cluster.create_topic(TOPIC, replicas=replicas, configs=configs)
                cluster.wait_in_sync(TOPIC, PARTITIONS, within=SETTLES)
                self._play()
                for what in (*stopped(cluster), *bugs_of(cluster)):
                    self._trouble(what)
        finally:
            self._notebook.close()

    def _trouble(self, what: str, rule: str = "trouble") -> None:
        self._notebook.note(Trouble(f"{rule}: {what}"))

    def _play(self) -> None:
        cluster, notebook = self._cluster, self._notebook
        place = Place(
            name="",
            group="",
            topic=TOPIC,
            bootstrap=cluster.bootstrap,
            map_address=cluster.map_address,
            directory=str(self._told.resolve()),
            began=self._began,
            seed=str(self._script.seed),
        )
        members = Members(self._told, place)
        writer = Writer(notebook, cluster.bootstrap, TOPIC, PARTITIONS)
        growth = Growth(cluster, TOPIC, writer, PARTITIONS)
        of_kafka = [each for each in self._groups if GROUPS[each] != PAPER]
        watcher = Watcher(notebook, cluster.map_address, of_kafka)
        nemesis = Nemesis(
            cluster, members, growth, self._groups, notebook, self._script.seed, self._say
        )
        workers = [writer, growth, watcher]
        for worker in workers:
            worker.start()
        try:
            nemesis.play(self._script.actions)
            nemesis.bring_back()
            self._settle(growth)
            growth.finish()
            writer.finish()
            self._come_to_rest(members, writer.ends)
            members.leave_all()
            for group in self._groups:
                self._fetch(group, writer.ends)
        finally:
            members.close()
            finish_all(workers)

    def _settle(self, growth: Growth) -> None:
        try:
            partitions = growth.settle(within=SETTLES)
            self._cluster.wait_in_sync(TOPIC, partitions, within=SETTLES)
        except TimeoutError as late:
            self._trouble(str(late), "stuck")

    def _come_to_rest(self, members: Members, ends: Mapping[int, int]) -> None:
        """Each group has read all, and committed that."""
        behind = set(self._groups)

        def is_at_rest() -> bool:
            members.check()
            behind.intersection_update({each for each in behind if self._fetch(each, ends) != ends})
            return not behind

        with suppress(TimeoutError):
            wait_until(is_at_rest, within=SETTLES, every=0.3)
        missing = unread(Case(History.load(self._told, Event), self._groups))
        for group in sorted(behind):
            left = [each for name, each in missing if name == group]
            what = f"{group} has not read and committed all {SETTLES:g} s after all is well"
            self._trouble(f"{what}; unread are records of partitions {left}", "stuck")

    def _fetch(self, group: str, partitions: Iterable[int]) -> dict[int, int] | None:
        """From where on nothing is committed, by partition; None if that cannot be had now."""
        asked = self._notebook.now()
        found = committed_of(self._cluster, group, TOPIC, partitions)
        if found is None:
            return None
        self._notebook.note(Fetched(group, END, found, asked))
        return {each: max(0, offset) for each, offset in found.items()}
