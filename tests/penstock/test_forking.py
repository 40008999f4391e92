"""Commands in forked processes: what they leave open is found, as it is at the end of others."""

import os
import socket
from pathlib import Path

from tests.penstock.forking import is_left_open


def test_what_is_open_is_found(tmp_path: Path) -> None:
    near, far = socket.socketpair()
    with near, far, (tmp_path / "file").open("wb", buffering=0) as file:
        assert all(map(is_left_open, (near, far, file)))
    assert not any(map(is_left_open, (near, far, file, tmp_path)))


def test_what_nobody_need_close_is_not(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        borrowed = os.fdopen(file.fileno(), "wb", buffering=0, closefd=False)
        assert not is_left_open(borrowed)
