"""Supervises and shows a pipeline during waits of the demonstration.

Also has the demonstration's errors. Different numbers are no error, but its result.
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
    """The demonstration failed; the message says on one line why, and where to look."""


class DemonstrationStopped(Exception):
    """The demonstration was stopped by Ctrl-C or SIGTERM."""


class Watch:
    """Waits for conditions while the pipeline is supervised. Belongs to the pipeline's thread."""

    def __init__(
        self,
        pipeline: LocalPipeline,
        screen: Screen,
        status: LatestStatus,
        stop_requests: StopRequests,
    ) -> None:
        self.pipeline = pipeline
        self._screen = screen
        self._status = status
        self._stop_requests = stop_requests
        self._programs: dict[str, ProgramStatus] = {}

    def note(self, text: str) -> None:
        self._screen.note(text)

    def turn(self) -> None:
        """Supervises the pipeline for a moment. Raises DemonstrationStopped after a signal."""
        if self._stop_requests.times:
            raise DemonstrationStopped
        programs = self.pipeline.turn()
        self._programs = {program.name: program for program in programs}
        self._screen.show(programs, self._status.latest)
        self._stop_requests.wait(_TURN_SECONDS)

    def until(self, condition: Callable[[], bool], within: float) -> bool:
        """Waits for the condition, for at most `within` seconds; returns whether it was met."""
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.turn()
        return True

    def runs(self, program: str) -> bool:
        status = self._programs.get(program)
        return status is not None and status.phase is ProgramPhase.RUNNING

    def until_ready(self, within: float, meanwhile: Callable[[], None]) -> None:
        """Waits until all programs are ready. Raises DemoFailed if one does not start."""

        def ready() -> bool:
            meanwhile()
            for program in self._programs.values():
                if program.restarts >= _MOST_DEATHS:
                    raise DemoFailed(_died(program))
            return self.pipeline.ready

        if not self.until(ready, within):
            unready = [
                program for program in self._programs.values() if not self.runs(program.name)
            ]
            raise DemoFailed(
                f"not ready within {within:.0f} s: "
                + "; ".join(
                    f"{program.name} is {program.phase.value}, see {program.log}"
                    for program in unready
                )
            )


def _died(program: ProgramStatus) -> str:
    last_line = program.last_lines[-1] if program.last_lines else "without output"
    return f"{program.name} does not start ({program.ended}): {last_line}"


def look_after(pipeline: LocalPipeline, stop_requests: StopRequests) -> None:
    """Supervises the pipeline until a signal arrives."""
    while not stop_requests.times:
        pipeline.turn()
        stop_requests.wait(_TURN_SECONDS)


def stop(pipeline: LocalPipeline, stop_requests: StopRequests) -> None:
    """Stops all programs in order; a second signal kills them."""
    pipeline.begin_to_stop()
    while not pipeline.stopped:
        if stop_requests.times > 1:
            pipeline.kill_all()
        pipeline.turn()
        stop_requests.wait(_STOPPING_TURN_SECONDS)
