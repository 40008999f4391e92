"""A sample application as a child of this process, from its first line to its tally."""

import sys
from pathlib import Path

from penstock.demo.applications.tally import Tally, kept
from penstock.demo.applications.writing import TALLY
from penstock.demo.samples import Sample
from penstock.up.running import Child


class ApplicationProcess:
    """It writes from here on. It ends with us, as the programs do (see penstock/up/running.py)."""

    def __init__(self, sample: Sample, directory: Path) -> None:
        """`directory` is where its folder is. Raises OSError."""
        self.sample = sample
        self.log = directory / f"{sample.name}.output"  # what it says beside its logs: nothing
        self._directory = directory / sample.name
        command = (sys.executable, "-P", "-m", sample.module, str(self._directory))
        self._child = Child(command, log=self.log, directory=directory)

    @property
    def ended(self) -> str:
        """How, in words; empty while it runs."""
        return self._child.ended

    def stop(self) -> None:
        """It ends soon, and has a tally then."""
        self._child.terminate()

    def kill(self) -> None:
        self._child.kill()

    def tally(self) -> Tally:
        """Raises OSError or DecodeError if it was killed."""
        return kept(self._directory / TALLY)
