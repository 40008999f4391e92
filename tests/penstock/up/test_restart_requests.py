"""`penstock up --restart` where nothing can be written."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.processes.waiting import wait_until
from penstock.directory.errors import DirectoryUnusable
from penstock.directory.lock import Lock
from penstock.directory.places import Places
from penstock.up.restart_requests import RestartRequests, restart
from tests.penstock.up.shown import program
from tests.system.small_disk import mounted_disk, no_inodes, read_only


def test_a_restart_needs_no_room_and_says_what_to_do_instead(tmp_path: Path) -> None:
    with mounted_disk(tmp_path, 1, inodes=40) as disk, ThreadPoolExecutor() as pool:
        places, begun = Places(disk), list[str]()
        with Lock(places.lock):
            places.config("loader").parent.mkdir(exist_ok=True)
            places.config("loader").touch()
            requests = RestartRequests(places)
            requests.forget()
            with no_inodes(disk):
                done = pool.submit(restart, places, "loader", command="penstock up")

                def turn() -> bool:
                    requests.turn((program("loader"),), begun.append)
                    return done.done()

                wait_until(turn, what="it runs again")
                done.result()
            assert begun == ["loader"]
            with (
                read_only(places.restart),
                pytest.raises(DirectoryUnusable, match=r"Read-only file system; .*`pkill -KILL"),
            ):
                restart(places, "loader", command="penstock up")
