"""Where `penstock up` keeps what, and on which ports its programs listen. Pure.

{directory}/
    config/         a file for each program, written anew at every start
    inputs.d/       what the agent follows: the user's, and read again while it runs
    logs/           a file for each program, cut when it is long
    zookeeper/ broker/ agent/ audit/      each program's own
    warehouse/      where the loader lands tables
    environment     for `.`: the addresses, as variables that all commands know
    up.json         what the next start goes on with
    lock            held while it runs
"""

from pathlib import Path
from typing import Final, NamedTuple

from penstock.standing.addresses import HOST, Addresses, Ports

__all__ = ["CLUSTER", "HOST", "PRIVATE", "WINDOW_SECONDS", "Addresses", "Places", "Ports"]

PRIVATE: Final = 0o700  # the directory's mode, if it is made here: logs of others may be in it
CLUSTER: Final = "local"
WINDOW_SECONDS: Final = 10  # short, so that a verdict is there soon; all programs have the same


class Places(NamedTuple):
    """The directory's parts. Absolute, as the programs are told them."""

    directory: Path

    def config(self, program: str) -> Path:
        return self.directory / "config" / f"{program}.yaml"

    def log(self, program: str) -> Path:
        return self.directory / "logs" / f"{program}.log"

    def data(self, program: str) -> Path:
        return self.directory / program

    @property
    def inputs(self) -> Path:
        return self.directory / "inputs.d"

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"

    @property
    def environment(self) -> Path:
        return self.directory / "environment"

    @property
    def remembered(self) -> Path:
        return self.directory / "up.json"

    @property
    def lock(self) -> Path:
        return self.directory / "lock"
