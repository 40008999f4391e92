"""One loader on a table at a time, on one host."""

import re
from pathlib import Path

import pytest

from loader.errors import RunTaken
from loader.run.load import sole_loader


def test_a_second_loader_is_told(tmp_path: Path) -> None:
    root = f"file://{tmp_path}"
    with sole_loader(root, "clicks"):
        with (
            pytest.raises(RunTaken, match="table clicks: another loader on this host"),
            sole_loader(root, "clicks"),
        ):
            pass
        with sole_loader(root, "views"), sole_loader(f"{root}/other", "clicks"):
            pass
    with sole_loader(root, "clicks"):
        pass


def test_it_is_the_same_for_all_users(tmp_path: Path) -> None:
    """So its name says nothing of them."""

    def held() -> set[str]:
        words = Path("/proc/net/unix").read_text(errors="replace").split()
        return {word for word in words if word.startswith("@penstock-load-")}

    before = held()
    with sole_loader(f"file://{tmp_path}", "clicks"):
        found = held() - before
    assert found
    assert all(re.fullmatch("@penstock-load-[0-9a-f]{32}", name) for name in found)
