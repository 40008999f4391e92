"""Carries out a script on a site, and notes what did not go as it should.

Whatever is waited for is a condition, with a bound that a busy machine does not reach. How long a
trouble lasts decides what happens, and not whether it is right.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

from harness.processes.waiting import wait_until
from tests.campaigns import nemesis
from tests.campaigns.history import History, Trouble
from tests.campaigns.nemesis import STOPS, Acts
from tests.campaigns.outcomes import Say
from tests.campaigns.pipeline.application import Application
from tests.campaigns.pipeline.site import WITHIN, Site
from tests.campaigns.script import Action


class Nemesis(nemesis.Nemesis):
    def __init__(self, site: Site, application: Application, seed: int, say: Say) -> None:
        self.history = History()
        super().__init__(self.history, seed, say)
        self.blows: Counter[str] = Counter()
        self.writers_frozen = 0
        self.until = float("inf")
        self._site, self._application = site, application
        self._back = ExitStack()  # mends what was struck
        self._dead: list[str] = []  # agents
        self._away: list[Any] = []  # programs that we have ended or frozen, or that have ended

    @cached_property
    def acts(self) -> Acts:
        verbs = ("kill", "stop", "freeze", "cut", "cut-source", "cut-map")
        return {
            **{each: partial(self._strike, each) for each in verbs},
            "freeze-writer": self._freeze_writer,
            "pause": lambda seconds: self.pause(min(seconds, self.until - time.monotonic())),
            "mend": self._mend,
            "whole": self._site.wait_whole,
        }

    @property
    def wrong(self) -> list[str]:
        return [each.what for each in self.history.of(Trouble)]

    def play_until(self, actions: Iterable[Action], over: Callable[[], bool]) -> None:
        """One after the other, until there are no more or it is `over`; then all is whole again."""
        self.play(takewhile(lambda _: not over(), actions))
        self._mend()
        self._site.wait_whole()
        self.look()

    def look(self) -> None:
        for name, place in self._site.places.items():
            for broker, code in place.cluster.ended_by_itself().items():
                self.trouble(f"broker {broker} of {name} ended by itself, with {code}")
        for name, mirrors in self._site.mirrors.items():
            for number, ended in mirrors.ended_by_itself().items():
                self.trouble(f"mirror {number} of {name} ended by itself, with {ended}")
        site = self._site
        for program in (*site.registries, *site.agents.values(), site.audit):
            if not program.process.alive and program not in self._away:
                self._away.append(program)
                self.trouble(f"{program.process.output} ended by itself")

    def _mend(self) -> None:
        self._back.close()
        # Where an agent was dead, files are renamed again once it knows those that are there.
        for host in self._dead:
            agent = self._site.agents[host]
            wait_until(agent.ready, within=WITHIN, what=f"the agent of {host} is ready")
            self._application.may_rotate(host, True)
        self._dead = []

    def _strike(self, verb: str, who: str) -> None:
        kind, _, name = who.partition("-")
        place, _, number = name.rpartition("-")
        self.blows[f"{kind} {verb}"] += 1
        match kind:
            case "broker":
                self._strike_broker(verb, place, int(number))
            case "mirror":
                self._strike_mirror(verb, place, int(number))
            case "registry":
                self._strike_registry(verb, place, int(number))
            case "agent":
                self._strike_agent(verb, name)
            case "audit":
                self._kill(self._site.audit)
            case "loader":
                self._site.loader.kill()

    def _strike_broker(self, verb: str, place: str, number: int) -> None:
        cluster = self._site.places[place].cluster
        if not cluster.alive(number) or cluster.is_frozen(number):
            return
        if verb == "freeze":
            cluster.freeze(number)
            self._back.callback(cluster.thaw, number)
            return
        if verb == "stop":
            stop = partial(cluster.stop, number, within=STOPS)
            self.stop(f"broker {number} of {place}", stop)
        else:
            cluster.kill(number)
        self._back.callback(cluster.spawn, number)

    def _strike_mirror(self, verb: str, place: str, number: int) -> None:
        mirrors = self._site.mirrors[place]
        if verb == "freeze":
            mirrors.freeze(number)
            self._back.callback(mirrors.thaw, number)
        elif verb == "cut-map":
            mirrors.cut_map(number)
            self._back.callback(mirrors.mend_map_links)
        elif verb in {"cut", "cut-source"}:
            cluster = mirrors.target if verb == "cut" else mirrors.source
            mirrors.cut(number, cluster)
            self._back.callback(cluster.mend_links)
        else:
            if verb == "kill":
                mirrors.kill(number)
            elif mirrors.alive(number):
                stop = partial(mirrors.stop, number, within=STOPS)
                self.stop(f"mirror {number} of {place}", stop)
            self._back.callback(mirrors.begin, number)

    def _strike_registry(self, verb: str, place: str, number: int) -> None:
        registry = self._site.places[place].registries[number - 1]
        if verb == "kill":
            self._kill(registry)
        elif registry not in self._away:
            pid = registry.process.pid
            self._away.append(registry)
            os.kill(pid, signal.SIGSTOP)
            self._back.callback(self._away.remove, registry)
            self._back.callback(os.kill, pid, signal.SIGCONT)

    def _strike_agent(self, verb: str, host: str) -> None:
        if verb == "kill":
            self._application.may_rotate(host, False)
            self._kill(self._site.agents[host], partial(self._site.begin_agent, host))
            self._dead.append(host)
        else:
            cluster = self._site.place_of(host).cluster
            for link in cluster.to_clients.values():
                link.cut(host)
            self._back.callback(cluster.mend_links)

    def _kill(self, program: Any, begin: Callable[[], object] | None = None) -> None:
        if program in self._away:
            return
        self._away.append(program)
        program.kill()
        self._back.callback(self._away.remove, program)
        self._back.callback(begin or program.spawn)

    def _freeze_writer(self, place: str) -> None:
        """The registry that writes, until the other one does. Then the frozen one goes on, and
        finds that it is the writer no more."""
        registries = self._site.places[place].registries
        writer = next((each for each in registries if each.is_writer), None)
        others = [each for each in registries if each is not writer and each not in self._away]
        if writer is None or not others:
            return
        self.writers_frozen += 1
        os.kill(writer.process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: others[0].is_writer, within=WITHIN, what="the other one writes")
        finally:
            os.kill(writer.process.pid, signal.SIGCONT)
        wait_until(lambda: not writer.is_writer, within=WITHIN, what="the former writes no more")
