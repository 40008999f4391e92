"""What a peer of the agent is: a program of somebody else's that carries lines from files to Kafka.

All are told the same: the files, one topic, every replica's acknowledgement, the best compression
that they have, 100 ms to fill a batch. Each sends a line as it is, and nothing with it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.processes.server_process import ServerProcess


class Task(msgspec.Struct, frozen=True):
    """What a peer is to do in one run: all files of `watched` into `topic`."""

    directory: Path  # its own: configuration, what it remembers, what it says
    watched: Path
    port: int
    topic: str


class Command(msgspec.Struct, frozen=True):
    """How a peer is run."""

    words: Sequence[str]
    libraries: Sequence[Path] = ()  # folders that are searched first


class Peer(msgspec.Struct, frozen=True):
    """A program, and how it is told what to do."""

    name: str
    why_not: Callable[[], str | None]  # how it is installed, where it is not
    version: Callable[[], str]
    configuration: Callable[[Task], str]
    file_name: str  # of the configuration
    command: Callable[[Path, Path], Command]  # by the configuration, and the task's directory

    def process(self, task: Task, wrapper: Sequence[str]) -> ServerProcess:
        """Not started. What it remembers is in the task's directory, which holds nothing yet."""
        (task.directory / "state").mkdir(parents=True)
        file = task.directory / self.file_name
        file.write_text(self.configuration(task))
        file.chmod(0o600)
        command = self.command(file, task.directory)
        return ServerProcess(
            [*wrapper, *command.words],
            output=task.directory / "output.log",
            environment=searched(command.libraries),
        )


def searched(libraries: Sequence[Path]) -> dict[str, str]:
    """The environment in which a program finds its libraries there."""
    return {"LD_LIBRARY_PATH": ":".join(map(str, libraries))} if libraries else {}
