"""What is said where a demonstration cannot begin, and what becomes of its folder."""

import io
from pathlib import Path

import pytest

from ground.listening import is_free
from penstock.demo.folder import Folder, free_ports
from penstock.demo.watch import DemoFailed, DemonstrationStopped, Watch
from penstock.directory.places import HOST, Places
from penstock.status.asking import Asking, KeptStatus
from penstock.up.pipeline import LocalPipeline
from penstock.up.screen import watching
from penstock.up.stop_requests import StopRequests

WITHIN = 60.0


@pytest.mark.not_quick("starts a demonstration")
def test_a_program_that_does_not_start_ends_the_demonstration(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.data("zookeeper").touch()  # a file, where it wants a folder
    asked = StopRequests()
    ports, mirror = free_ports()
    with LocalPipeline(places, ports, mirror=mirror) as pipeline:
        screen = watching(io.StringIO(), places, pipeline.addresses)
        watch = Watch(pipeline, screen, KeptStatus(Asking(pipeline.entrance)), asked)
        with pytest.raises(DemoFailed, match="zookeeper does not start \\(exit code 2\\): "):
            watch.until_ready(WITHIN, lambda: None)
        assert not watch.runs("zookeeper")
        asked.times += 1
        with pytest.raises(DemonstrationStopped):
            watch.until(lambda: False, WITHIN)


def test_its_ports_are_free() -> None:
    own, mirror = free_ports()
    ports = [*own, *mirror]
    assert ports == list(range(ports[0], ports[0] + len(ports)))
    assert all(is_free(HOST, port) for port in ports)


def test_a_folder_of_its_own_is_removed() -> None:
    with Folder(None, keep=False) as folder:
        (folder.path / "a").mkdir()
        (folder.path / "a" / "file").touch()
    assert not folder.path.exists()


def test_a_folder_is_kept_where_it_is_asked_for_or_needed(tmp_path: Path) -> None:
    with Folder(tmp_path / "named" / "new", keep=False) as named:
        pass
    assert named.kept
    assert named.path.is_dir()
    with pytest.raises(DemoFailed), Folder(None, keep=False) as failed:
        raise DemoFailed("for a test")
    assert failed.kept
    failed.path.rmdir()
    with pytest.raises(DemoFailed, match="named is not empty"):
        Folder(tmp_path / "named", keep=False)
    (tmp_path / "file").touch()
    with pytest.raises(DemoFailed, match="file cannot be used: "):
        Folder(tmp_path / "file", keep=False)
