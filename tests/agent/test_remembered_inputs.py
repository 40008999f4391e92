"""The names of inputs that were followed before, as a start finds them."""

from pathlib import Path

import pytest

from agent.remembered_inputs import read_names, write_names


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_names(tmp_path) == set()
    write_names(tmp_path, {"web", "caf\u00e9"})
    assert read_names(tmp_path) == {"web", "caf\u00e9"}
    write_names(tmp_path, {"web"})
    assert read_names(tmp_path) == {"web"}
    assert [path.name for path in tmp_path.iterdir()] == ["inputs.json"]


@pytest.mark.parametrize("damaged", [b"", b"[", b"\xff", b"{}", b"[1]"])
def test_damage_is_no_empty_list(tmp_path: Path, damaged: bytes) -> None:
    """Otherwise every input would begin as a new one does."""
    (tmp_path / "inputs.json").write_bytes(damaged)
    assert read_names(tmp_path) is None
    write_names(tmp_path, {"web"})
    assert read_names(tmp_path) == {"web"}
