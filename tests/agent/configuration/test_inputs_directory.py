"""`inputs_dir`, on real files: what is taken, what is not, and what is said about it."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.configuration.inputs import Input
from agent.configuration.inputs_directory import InputsDirectory
from agent.errors import ConfigRejected


def followed(*names: str) -> tuple[Input, ...]:
    return tuple(Input(paths=("/var/log/x",), topic=name) for name in names)


class Reading:
    """Reads files that hold names of topics, or `wrong`; remembers which it has read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: Path) -> Sequence[Input]:
        self.read.append(path.name)
        text = path.read_text()
        if "wrong" in text:
            raise ConfigRejected(f"{path}:1:4: unknown key")
        return followed(*text.split())


@pytest.fixture
def reading() -> Reading:
    return Reading()


@pytest.fixture
def directory(tmp_path: Path, reading: Reading) -> InputsDirectory:
    return InputsDirectory(tmp_path, followed("main"), reading)


def topics(directory: InputsDirectory) -> list[str]:
    return [each.topic for each in directory.inputs]


def refused(directory: InputsDirectory) -> list[tuple[str, str]]:
    return [(Path(each.path).name, each.why) for each in directory.refusals]


def test_without_a_directory_there_is_the_main_file(reading: Reading) -> None:
    directory = InputsDirectory(None, followed("main"), reading)
    assert directory.look()
    assert topics(directory) == ["main"]
    assert not directory.look()


def test_files_are_read_in_the_order_of_their_names(
    tmp_path: Path, directory: InputsDirectory, reading: Reading
) -> None:
    for name, text in {"b.yaml": "b1 b2", "a.yml": "a", ".c.yaml": "c", "d.yaml~": "d"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sub.yaml").mkdir()
    (tmp_path / "dangling.yaml").symlink_to("absent")
    assert directory.look()
    assert topics(directory) == ["main", "a", "b1", "b2"]
    assert reading.read == ["a.yml", "b.yaml"]
    assert not directory.look()
    assert reading.read == ["a.yml", "b.yaml"]


def test_a_wrong_file_disables_only_itself_and_is_named_once(
    tmp_path: Path, directory: InputsDirectory
) -> None:
    (tmp_path / "a.yaml").write_text("wrong")
    (tmp_path / "b.yaml").write_text("b")
    directory.look()
    assert topics(directory) == ["main", "b"]
    assert refused(directory) == [("a.yaml", "line 1, column 4: unknown key")]
    assert directory.news == directory.refusals
    directory.look()
    assert (len(directory.refusals), directory.news) == (1, ())

    (tmp_path / "a.yaml").write_text("wrong as ever")
    directory.look(at_once=True)
    assert (len(directory.refusals), directory.news) == (1, ())
    (tmp_path / "a.yaml").write_text("a")
    assert directory.look(at_once=True)
    assert (topics(directory), refused(directory)) == (["main", "a", "b"], [])


def test_what_a_file_said_before_holds_on(tmp_path: Path, directory: InputsDirectory) -> None:
    (tmp_path / "a.yaml").write_text("a")
    directory.look()
    (tmp_path / "a.yaml").write_text("wrong")
    assert directory.look(at_once=True)
    assert topics(directory) == ["main", "a"]
    ((_, why),) = refused(directory)
    assert why == "line 1, column 4: unknown key; its previous content stays in effect"
    (tmp_path / "a.yaml").unlink()
    assert directory.look()
    assert (topics(directory), refused(directory)) == (["main"], [])


def test_names_that_are_taken_are_refused(tmp_path: Path, directory: InputsDirectory) -> None:
    (tmp_path / "a.yaml").write_text("x y")
    (tmp_path / "b.yaml").write_text("z x")
    (tmp_path / "c.yaml").write_text("main")
    directory.look()
    assert topics(directory) == ["main", "x", "y"]
    assert [name for name, _ in refused(directory)] == ["b.yaml", "c.yaml"]
    assert "duplicate input x" in refused(directory)[0][1]
    (tmp_path / "a.yaml").unlink()
    assert directory.look()
    assert topics(directory) == ["main", "z", "x"]


def test_a_file_that_is_being_written_is_waited_for(
    tmp_path: Path, directory: InputsDirectory, reading: Reading
) -> None:
    directory.look()
    path = tmp_path / "a.yaml"
    path.write_text("wro")
    assert not directory.look()
    path.write_text("wrong")
    assert not directory.look()
    path.write_text("a")
    assert not directory.look()
    assert reading.read == []
    assert directory.look()
    assert (topics(directory), reading.read) == (["main", "a"], ["a.yaml"])


def test_a_file_that_is_replaced_is_read_again(tmp_path: Path, directory: InputsDirectory) -> None:
    """Same size and same time: a copy with `cp --preserve` and a rename."""
    path, other = tmp_path / "a.yaml", tmp_path / "a.new"
    path.write_text("a")
    stat = path.stat()
    directory.look()
    other.write_text("b")
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.rename(path)
    assert directory.look(at_once=True)
    assert topics(directory) == ["main", "b"]


def test_a_directory_that_is_away_changes_nothing_but_is_named(
    tmp_path: Path, reading: Reading
) -> None:
    path = tmp_path / "agent.d"
    directory = InputsDirectory(path, followed("main"), reading)
    missing = [("agent.d", "No such file or directory")]
    assert directory.look()
    assert (topics(directory), refused(directory)) == (["main"], missing)
    path.mkdir()
    (path / "a.yaml").write_text("a")
    assert directory.look(at_once=True)
    assert (topics(directory), refused(directory)) == (["main", "a"], [])
    path.rename(tmp_path / "elsewhere")
    assert directory.look()
    assert not directory.look()
    assert (topics(directory), refused(directory)) == (["main", "a"], missing)
