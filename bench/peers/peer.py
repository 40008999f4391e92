"""A peer of the agent: another program that ships lines from files to Kafka.

All have the same settings: the files, one topic, acknowledgement by every replica, their best
compression, 100 ms to fill a batch. Each sends the bare line.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.processes.server_process import ServerProcess


class Task(msgspec.Struct, frozen=True):
    """A run of a peer: all files in `watched` go to `topic`."""

    directory: Path  # for its configuration, state and output
    watched: Path
    port: int
    topic: str


class Command(msgspec.Struct, frozen=True):
    """A peer's command line."""

    words: Sequence[str]
    libraries: Sequence[Path] = ()  # folders to search first


class Peer(msgspec.Struct, frozen=True):
    """A program and its configuration."""

    name: str
    why_not: Callable[[], str | None]  # how to install it, if it is missing
    version: Callable[[], str]
    configuration: Callable[[Task], str]
    file_name: str  # of the configuration
    command: Callable[[Path, Path], Command]  # from the configuration and the directory

    def process(self, task: Task, wrapper: Sequence[str]) -> ServerProcess:
        """Returns the process, not started yet. Its state is in the task's directory, which is
        empty."""
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
    """Returns the environment in which a program finds these libraries."""
    return {"LD_LIBRARY_PATH": ":".join(map(str, libraries))} if libraries else {}
