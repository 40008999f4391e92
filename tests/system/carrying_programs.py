"""The clients of Go and of Node.js that write and read on, as those of carrying.py do, in programs
of their own (other_languages/).

They say what they do line by line, and stop when their input ends. Whatever an application is told
ends them with an error.
"""

import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO, Final

from tests.system.carrying import PARTITIONS, Clients, Reader, Writer
from tests.system.other_languages.programs import FRANZ_GO, KAFKAJS, Client

_LOOKS_SECONDS: Final = 0.1
_ENDS_WITHIN: Final = 150.0


class ProgramWriter(Writer):
    def __init__(self, client: Client, bootstrap: str, topic: str) -> None:
        super().__init__(client.name, bootstrap, topic)
        self._client = client

    def work(self) -> None:
        arguments = self.bootstrap, self.topic, str(PARTITIONS)
        for line in _lines(self._client, "write", arguments, lambda: self.stopping):
            self.sent = int(line) + 1


class ProgramReader(Reader):
    def __init__(self, client: Client, bootstrap: str, topic: str) -> None:
        super().__init__(client.name, bootstrap, topic)
        self._client = client

    def work(self) -> None:
        arguments = self.bootstrap, self.topic, str(PARTITIONS)
        for line in _lines(self._client, "read", arguments, lambda: self.is_over):
            partition, value = line.split()
            self.note(int(partition), value)


def pairs_of_programs(bootstrap: str) -> Clients:
    """By the names of their topics. A consumer of kafkajs is always one of a group, which
    it leaves when a broker dies: franz-go reads what it writes. Raises ClientUnavailable."""
    for client in (FRANZ_GO, KAFKAJS):
        client.program("write")
    return {
        client.name: (
            ProgramWriter(client, bootstrap, client.name),
            ProgramReader(FRANZ_GO, bootstrap, client.name),
        )
        for client in (FRANZ_GO, KAFKAJS)
    }


def _lines(
    client: Client, task: str, arguments: tuple[str, ...], is_over: Callable[[], bool]
) -> Iterator[bytes]:
    """What it says, until it has ended, which it is told to as soon as it is over."""
    command = client.program(task)
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            [*command.words, *arguments],
            env=command.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            bufsize=0,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield from _said(process.stdout, process.stdin, is_over)
            code = process.wait(_ENDS_WITHIN)
        finally:
            process.kill()
        complaints.seek(0)
        assert code == 0, f"{client.name} {task}: {complaints.read().decode()}"


def _said(output: IO[bytes], until: IO[bytes], is_over: Callable[[], bool]) -> Iterator[bytes]:
    """Line by line, to the end. What it waits for is closed when it is over."""
    begun, patience = b"", 0.0
    while True:
        if not until.closed and is_over():
            until.close()
            patience = time.monotonic() + _ENDS_WITHIN
        if select.select([output], [], [], _LOOKS_SECONDS)[0]:
            said = output.read(1 << 16)
            if not said:
                return
            *lines, begun = (begun + said).split(b"\n")
            yield from lines
        assert not until.closed or time.monotonic() < patience, "it does not end"
