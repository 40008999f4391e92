"""Does to two clusters and the mirrors between them what a script says, and heals everything at the
end."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Final

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.penstock.clusters.two_clusters import TwoClusters
from harness.processes.waiting import wait_until
from tests.campaigns import nemesis
from tests.campaigns.cluster import nemesis as of_clusters
from tests.campaigns.disks import SmallDisk
from tests.campaigns.history import Done, Notes
from tests.campaigns.mirror.commands import Commands
from tests.campaigns.mirror.gaps import Gaps
from tests.campaigns.mirror.script import GAPS, PARTITIONS, SIDES
from tests.campaigns.nemesis import STOPS, Acts
from tests.campaigns.outcomes import Say
from tests.system.faults import Faults

HEALS: Final = 240.0


class OfCluster(of_clusters.Nemesis):
    """What is done to one of the two. A broker that gives up while it starts, as one to which
    ZooKeeper does not answer in time, is started again, as systemd does it."""

    _starting: frozenset[int] = frozenset()

    def start(self, broker: int) -> None:
        super().start(broker)
        self._starting |= {broker}

    def look(self) -> None:
        for broker, code in self.cluster.ended_by_itself().items():
            if broker in self._starting:
                self.cluster.spawn(broker)
            elif broker not in self.excused and not self._map_in_trouble:
                self.trouble(f"broker {broker} ended by itself, with {code}")
        self._starting = frozenset(
            each for each in self._starting if not self.cluster.brokers[each].ready()
        )

    def all_ready(self) -> bool:
        """Whether all brokers are; who gave up is started again."""
        self.look()
        return all(broker.ready() for broker in self.cluster.brokers.values())


class Nemesis(nemesis.Nemesis):
    def __init__(  # noqa: PLR0917  each is another part
        self,
        clusters: TwoClusters,
        faults: Mapping[str, Faults],
        disks: Mapping[int, SmallDisk],
        gaps: Gaps,
        topics: Mapping[str, str],
        notes: Notes,
        seed: int,
        say: Say,
    ) -> None:
        """`faults`: by names as `source-1`. `disks`: small ones, of the target's brokers.
        `topics`: of each side, the one whose leaders are meant."""
        super().__init__(notes, seed, say)
        self._clusters, self._faults, self._disks = clusters, faults, disks
        self._gaps, self._topics = gaps, topics
        self._commands = Commands(clusters, topics["target"], self.trouble)
        self._of = {
            side: OfCluster(
                cluster,
                notes,
                seed,
                faults={each: faults[f"{side}-{each}"] for each in cluster.ids},
                topics={topics[side]: PARTITIONS},
            )
            for side, cluster in zip(SIDES, clusters.both, strict=True)
        }

    @cached_property
    def acts(self) -> Acts:
        clusters, commands = self._clusters, self._commands
        of_clusters = {
            f"{side}-{verb}": self._to(side, act)
            for side, each in self._of.items()
            for verb, act in each.acts.items()
        }
        leaders = {
            f"{side}-{verb}-leader": partial(self._to_leader, side, verb)
            for side in SIDES
            for verb in ("kill", "freeze")
        }
        clocks = {f"{who}-clock": partial(self._move_clocks, who) for who in (*SIDES, "mirror")}
        return {
            **of_clusters,
            **leaders,
            **clocks,
            "pause": self.pause,
            "begin-mirror": clusters.begin,
            "stop-mirror": self._stop,
            "kill-mirror": clusters.kill,
            "freeze-mirror": clusters.freeze,
            "thaw-mirror": clusters.thaw,
            "cut-mirror": lambda number, side: clusters.cut(number, self._cluster(side)),
            "slow-mirror": lambda n, side, s: clusters.slow(n, self._cluster(side), s),
            "cut-mirror-map": clusters.cut_map,
            "mend-mirrors": clusters.mend_links,
            "fill-disk": self._fill,
            "free-disk": self._free,
            "pause-copy": commands.pause,
            "resume-copy": commands.resume,
            "open-copy": commands.open,
            "close-copy": commands.close,
            **{kind: partial(self._make_gap, kind) for kind in GAPS},
        }

    def look(self) -> None:
        for number, code in self._clusters.ended_by_itself().items():
            self.trouble(f"mirror {number} ended by itself, with {code}")
        for each in self._of.values():
            each.look()

    def heal(self) -> None:
        """Nothing is wrong any more; who was down is started, and all mirrors run."""
        self.look()
        for disk in self._disks.values():
            disk.free()
        for each in self._of.values():
            each.bring_back()
        self._clusters.mend_links()
        for faults in self._faults.values():
            faults.no_more()
        for number in self._clusters.mirrors:
            self._clusters.thaw(number)
            self._clusters.begin(number)
        wait_until(
            lambda: all(each.all_ready() for each in self._of.values()),
            within=HEALS,
            what="all brokers are ready",
            every=0.5,
        )
        if late := self._commands.undo():
            self.trouble(late, "stuck")
        self.notes.note(Done("everything is healed"))

    # Clusters

    def _cluster(self, side: str) -> BrokerCluster:
        return self._of[side].cluster

    def _to(self, side: str, act: Callable[..., object]) -> Callable[..., object]:
        """What is done to one cluster, by the chance of this action."""

        def acts(*words: object) -> None:
            self._of[side].chance = self.chance
            act(*words)

        return acts

    def _to_leader(self, side: str, verb: str, partition: int) -> None:
        cluster = self._cluster(side)
        broker = cluster.leader(self._topics[side], partition)
        if broker in cluster.ids:
            self.acts[f"{side}-{verb}"](broker)

    def _move_clocks(self, role: str, seconds: float) -> None:
        for name, faults in self._faults.items():
            if name.startswith(f"{role}-"):
                faults.move_clock(seconds)

    def _make_gap(self, kind: str) -> None:
        self.heal()
        try:
            self._gaps.make(kind, self.chance)
        except TimeoutError as late:
            self.trouble(f"before or while a gap was made ({kind}): {late}", "stuck")

    def _fill(self, broker: int) -> None:
        """Not a byte is free any more; nothing, where disks cannot be made."""
        if broker in self._disks:
            self._disks[broker].fill()

    def _free(self, broker: int) -> None:
        if broker in self._disks:
            self._disks[broker].free()
        self.acts["target-kill"](broker)
        self.acts["target-start"](broker)

    # Mirrors

    def _stop(self, number: int) -> None:
        if self._clusters.alive(number):
            self.stop(f"mirror {number}", partial(self._clusters.stop, number, within=STOPS))

    def stop_all(self) -> None:
        for number in self._clusters.mirrors:
            self._stop(number)
