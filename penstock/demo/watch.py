"""A pipeline that is looked after and shown while something else is waited for.

And what keeps a demonstration from its end. That numbers differ is no error: it is what it shows.
"""

import time
from collections.abc import Callable
from typing import Final

from penstock.status.collector import LatestStatus
from penstock.up.pipeline import LocalPipeline
from penstock.up.programs import ProgramPhase, ProgramStatus
from penstock.up.screen import Screen
from penstock.up.stop_requests import StopRequests

_TURN_SECONDS: Final = 0.1
_STOPPING_TURN_SECONDS: Final = 0.05
_MOST_DEATHS: Final = 3  # of a program that has not been ready yet


class DemoFailed(Exception):
    """One line says why, and where to look."""


class DemonstrationStopped(Exception):
    """Somebody wants it to end: Ctrl-C, SIGTERM."""


class Watch:
    """Belongs to the pipeline's thread. Whoever waits for something, waits here."""

    def __init__(
        self, pipeline: LocalPipeline, screen: Screen, following: LatestStatus, asked: StopRequests
    ) -> None:
        self.pipeline = pipeline
        self._screen = screen
        self._following = following
        self._asked = asked
        self._programs: dict[str, ProgramStatus] = {}

    def note(self, text: str) -> None:
        self._screen.note(text)

    def turn(self) -> None:
        """Raises DemonstrationStopped once somebody wants that."""
        if self._asked.times:
            raise DemonstrationStopped
        programs = self.pipeline.turn()
        self._programs = {program.name: program for program in programs}
        self._screen.show(programs, self._following.latest)
        self._asked.wait(_TURN_SECONDS)

    def until(self, condition: Callable[[], bool], within: float) -> bool:
        """Whether it came true in time, which is in seconds."""
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.turn()
        return True

    def runs(self, program: str) -> bool:
        found = self._programs.get(program)
        return found is not None and found.phase is ProgramPhase.RUNNING

    def until_ready(self, within: float, meanwhile: Callable[[], None]) -> None:
        """Raises DemoFailed if a program does not start."""

        def ready() -> bool:
            meanwhile()
            for program in self._programs.values():
                if program.restarts >= _MOST_DEATHS:
                    raise DemoFailed(_died(program))
            return self.pipeline.ready

        if not self.until(ready, within):
            late = [program for program in self._programs.values() if not self.runs(program.name)]
            raise DemoFailed(
                f"not ready within {within:.0f} s: "
                + "; ".join(
                    f"{program.name} is {program.phase.value}, see {program.log}"
                    for program in late
                )
            )


def _died(program: ProgramStatus) -> str:
    last = program.last_lines[-1] if program.last_lines else "it said nothing"
    return f"{program.name} does not start ({program.ended}): {last}"


def look_after(pipeline: LocalPipeline, asked: StopRequests) -> None:
    """Until somebody wants it to end."""
    while not asked.times:
        pipeline.turn()
        asked.wait(_TURN_SECONDS)


def stop(pipeline: LocalPipeline, asked: StopRequests) -> None:
    """Stops all programs, in their order; at once, if that is asked for twice."""
    pipeline.begin_to_stop()
    while not pipeline.stopped:
        if asked.times > 1:
            pipeline.kill_all()
        pipeline.turn()
        asked.wait(_STOPPING_TURN_SECONDS)
