"""The witness keeps open files by systemd's protocol: a file that was deleted while its program was
dead is read on by the next start, until the program lets it go."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_until
from tests.campaigns.witness.programs import Keeper, KeptProcess

PROGRAM = """
import os, socket, sys, time
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.connect("\\0" + os.environ["NOTIFY_SOCKET"][1:])
kept = int(os.environ.get("LISTEN_FDS", "0"))
if kept:
    assert os.environ["LISTEN_PID"] == str(os.getpid())
    for number, name in enumerate(os.environ["LISTEN_FDNAMES"].split(":")):
        print(name, os.pread(3 + number, 100, 0).decode(), flush=True)
    told.send(b"FDSTOREREMOVE=1\\nFDNAME=first")
else:
    opened = [open(each) for each in sys.argv[1:]]
    for name, file in zip(("first", "second"), opened):
        socket.send_fds(told, [f"FDSTORE=1\\nFDNAME={name}".encode()], [file.fileno()])
    print("stored", flush=True)
time.sleep(600)
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    keeper = Keeper(tmp_path)
    yield keeper
    keeper.close()


def test_what_was_open_is_handed_to_the_next_start(tmp_path: Path, keeper: Keeper) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    for each in files:
        each.write_text(each.name)
    command = [sys.executable, "-c", PROGRAM, *map(str, files)]
    with KeptProcess(command, output=tmp_path / "output") as process:
        process.keeper = keeper
        process.spawn()
        wait_until(
            lambda: len(keeper.descriptors) == 2 and process.log() == "stored\n",
            within=30,
            what="two files are kept, and it has said so",
        )
        process.kill()
        for each in files:
            each.unlink()
        process.spawn()
        wait_until(
            lambda: process.log() == "stored\nfirst one\nsecond two\n",
            within=30,
            what="both are read",
        )
        wait_until(lambda: len(keeper.descriptors) == 1, within=30, what="one was let go")
        process.kill()
        process.spawn()
        wait_until(lambda: process.log().endswith("second two\nsecond two\n"), within=30, what="it")
