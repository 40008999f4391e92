"""Carries out troubles on a topology, one after the other, and notes what did not go as it should.

Whatever is waited for is a condition, with a bound that a busy machine does not reach. How long a
trouble lasts decides what happens, and not whether it is right.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Final

from harness.broker_cluster import BrokerCluster
from harness.mirrors import Mirrors
from harness.server_process import ServerFailed
from harness.waiting import wait_until
from tests.cluster_pipeline.application import Application
from tests.mirror_pipeline.choosing import Blow, Trouble, Verb, Who
from tests.mirror_pipeline.topology import DATACENTERS, Topology

_WITHIN: Final = 240.0
_STOPS: Final = 60.0


class Nemesis:
    def __init__(
        self, topology: Topology, application: Application, say: Callable[[str], None]
    ) -> None:
        self.done: list[Trouble] = []
        self.blows: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._topology, self._application, self._say = topology, application, say
        self._clusters = {each.name: each.cluster for each in topology.parts}

    def play(self, troubles: Iterable[Trouble], over: Callable[[], bool]) -> None:
        """One after the other, until there are no more or it is `over`; then all is whole again."""
        for trouble in troubles:
            if over():
                break
            self._say(str(trouble))
            self._carry_out(trouble)
            self.done.append(trouble)
            if trouble.then_whole:
                self._topology.wait_whole()
            self._look_who_ended()
        self._topology.wait_whole()
        self._look_who_ended()

    def _carry_out(self, trouble: Trouble) -> None:
        with ExitStack() as unwatched:
            with ExitStack() as back:
                for blow in trouble.blows:
                    self.blows[f"{blow.victim.who} {blow.verb}"] += 1
                    self._strike(blow, back, unwatched)
                time.sleep(trouble.seconds)
            # Where an agent was dead, files are renamed again once it knows those that are there.
            for blow in trouble.blows:
                if blow.victim.who is Who.AGENT:
                    agent = self._topology.agents[_host(blow)]
                    self._wait(agent.ready, f"the agent of {agent.host} is ready")

    def _strike(self, blow: Blow, back: ExitStack, unwatched: ExitStack) -> None:
        """`back` mends it; `unwatched` lasts until its agent is there again."""
        match blow.victim.who:
            case Who.BROKER:
                cluster = self._clusters[blow.victim.place]
                self._strike_broker(blow.verb, cluster, blow.victim.number, back)
            case Who.MIRROR:
                mirrors = self._topology.mirrors[blow.victim.place]
                self._strike_mirror(blow.verb, mirrors, blow.victim.number, back)
            case Who.AGENT:
                self._strike_agent(blow, back, unwatched)
            case Who.AUDIT:
                self._topology.audit.kill()
                back.callback(self._topology.audit.spawn)
            case Who.LOADER:
                self._topology.loader.kill()

    def _strike_broker(
        self, verb: Verb, cluster: BrokerCluster, number: int, back: ExitStack
    ) -> None:
        if verb is Verb.FREEZE:
            cluster.freeze(number)
            back.callback(cluster.thaw, number)
            return
        if verb is Verb.STOP:
            self._stop(f"broker {number}", lambda: cluster.stop(number, within=_STOPS))
        else:
            cluster.kill(number)
        back.callback(cluster.spawn, number)

    def _strike_mirror(self, verb: Verb, mirrors: Mirrors, number: int, back: ExitStack) -> None:
        match verb:
            case Verb.FREEZE:
                mirrors.freeze(number)
                back.callback(mirrors.thaw, number)
            case Verb.CUT:
                mirrors.cut(number, mirrors.target)
                back.callback(mirrors.target.mend_links)
            case Verb.CUT_SOURCE:
                mirrors.cut(number, mirrors.source)
                back.callback(mirrors.source.mend_links)
            case Verb.CUT_MAP:
                mirrors.cut_map(number)
                back.callback(mirrors.mend_map_links)
            case Verb.KILL:
                mirrors.kill(number)
                back.callback(mirrors.begin, number)
            case Verb.STOP:
                self._stop(f"mirror {number}", lambda: mirrors.stop(number, within=_STOPS))
                back.callback(mirrors.begin, number)

    def _strike_agent(self, blow: Blow, back: ExitStack, unwatched: ExitStack) -> None:
        host = _host(blow)
        if blow.verb is Verb.KILL:
            unwatched.enter_context(self._application.without_rotation(host))
            self._topology.agents[host].kill()
            back.callback(self._topology.begin_agent, host)
            return
        cluster = self._topology.part_of(host).cluster
        for link in cluster.to_clients.values():
            link.cut(host)
        back.callback(cluster.mend_links)

    def _stop(self, what: str, stop: Callable[[], int]) -> None:
        try:
            code = stop()
        except ServerFailed:
            self.wrong.append(f"{what} did not stop within {_STOPS:g} s")
        else:
            # It may just have been started: nobody hears a signal before it listens for one.
            if code not in {0, -signal.SIGTERM}:
                self.wrong.append(f"{what} stopped with {code}")

    def _wait(self, met: Callable[[], bool], what: str) -> None:
        wait_until(met, within=_WITHIN, what=what, every=0.1)

    def _look_who_ended(self) -> None:
        topology = self._topology
        for name, cluster in self._clusters.items():
            for broker, code in cluster.ended_by_itself().items():
                self.wrong.append(f"broker {broker} of {name} ended by itself, with {code}")
        for name, mirrors in topology.mirrors.items():
            for number, ended in mirrors.ended_by_itself().items():
                self.wrong.append(f"mirror {number} of {name} ended by itself, with {ended}")
        registries = [each.registry for each in topology.parts]
        for program in (*registries, *topology.agents.values(), topology.audit):
            if not program.process.alive:
                self.wrong.append(f"{program.process.output} ended by itself")


def _host(blow: Blow) -> str:
    """Of an agent."""
    (found,) = (each for each in DATACENTERS if each.name == blow.victim.place)
    return found.hosts[blow.victim.number - 1]
