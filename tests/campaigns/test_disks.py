"""A disk that is full until it is freed."""

import os
from pathlib import Path

import pytest

from tests.campaigns.disks import SmallDisk


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts disks")
def test_a_small_disk_is_full_until_it_is_freed(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "data", "1m")
    assert not disk.fill()
    disk.mount()
    try:
        assert disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "data" / "more").write_bytes(bytes(8192))
        assert disk.free()
        (tmp_path / "data" / "more").write_bytes(bytes(8192))
    finally:
        disk.unmount()
    assert list((tmp_path / "data").iterdir()) == []
