"""Carries out troubles on a site, one after the other, and notes what did not go as it should.

Whatever is waited for is a condition, with a bound that a busy machine does not reach.
"""

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Final

from harness.server_process import ServerFailed
from harness.waiting import wait_until
from tests.cluster_pipeline.application import Application
from tests.cluster_pipeline.choosing import Beside, Then, Trouble, Verb
from tests.cluster_pipeline.site import Site
from tests.cluster_pipeline.watching import LeaderWatch

_WITHIN: Final = 180.0
_STOPS: Final = 60.0


class Nemesis:
    def __init__(
        self,
        site: Site,
        leaders: LeaderWatch,
        application: Application,
        say: Callable[[str], None],
    ) -> None:
        self.done: list[Trouble] = []
        self.wrong: list[str] = []
        self.writers_frozen = 0
        self._site, self._leaders, self._application = site, leaders, application
        self._say = say
        self._cluster = site.cluster

    def play(self, troubles: Iterable[Trouble], over: Callable[[], bool]) -> None:
        """One after the other, until there are no more or it is `over`; then all is whole again."""
        for trouble in troubles:
            if over():
                break
            self._say(str(trouble))
            self._carry_out(trouble)
            self.done.append(trouble)
            if trouble.then is Then.WHOLE:
                self._site.wait_whole(_WITHIN)
            else:
                self._wait(self._site.enough, "acks=all is taken everywhere")
            self._look_who_ended()
        self._site.wait_whole(_WITHIN)
        self._look_who_ended()

    def _carry_out(self, trouble: Trouble) -> None:
        broker = trouble.broker
        with ExitStack() as beside:
            if trouble.verb is Verb.FREEZE:
                self._cluster.freeze(broker)
                beside.callback(self._cluster.thaw, broker)
            elif trouble.verb is Verb.KILL:
                self._cluster.kill(broker)
            else:
                self._stop(broker)
            if trouble.verb is not Verb.FREEZE:
                beside.callback(self._cluster.spawn, broker)
            if trouble.at_once:
                return
            if trouble.beside is Beside.AGENT:
                agent = self._site.agents[len(self.done) % len(self._site.agents)]
                beside.enter_context(self._application.without_rotation(agent.host))
                agent.kill()
                # What it had under way is looked for where others lead.
                self._wait_gone(broker)
                agent.start(within=_WITHIN)
            elif trouble.beside is Beside.WRITER:
                self._freeze_writer()
            self._wait_gone(broker)

    def _stop(self, broker: int) -> None:
        try:
            code = self._cluster.stop(broker, within=_STOPS)
        except ServerFailed:
            self.wrong.append(f"broker {broker} did not stop within {_STOPS:g} s")
        else:
            # It may just have been started: nobody hears a signal before it listens for one.
            if code not in {0, -signal.SIGTERM}:
                self.wrong.append(f"broker {broker} stopped with {code}")

    def _freeze_writer(self) -> None:
        """The registry that writes, until the other one does. Then the frozen one goes on, and
        finds that it is the writer no more."""
        writer = self._site.writer()
        if writer is None:
            return
        (other,) = (each for each in self._site.registries if each is not writer)
        self.writers_frozen += 1
        os.kill(writer.process.pid, signal.SIGSTOP)
        try:
            self._wait(lambda: other.is_writer, "the other registry writes")
        finally:
            os.kill(writer.process.pid, signal.SIGCONT)
        self._wait(lambda: not writer.is_writer, "the former registry writes no more")

    def _wait_gone(self, broker: int) -> None:
        """Until the map knows that it is not there."""
        self._wait(
            lambda: broker not in self._leaders.brokers and not self._leaders.leads(broker),
            f"broker {broker} is gone from the map, and leads nothing",
        )

    def _wait(self, met: Callable[[], bool], what: str) -> None:
        wait_until(met, within=_WITHIN, what=what, every=0.1)

    def _look_who_ended(self) -> None:
        for broker, code in self._cluster.ended_by_itself().items():
            self.wrong.append(f"broker {broker} ended by itself, with {code}")
        programs = (*self._site.registries, *self._site.agents, self._site.audit)
        for program in programs:
            if not program.process.alive:
                self.wrong.append(f"{program.process.output.stem} ended by itself")
