"""Open files, checkpoints, identity and partition directories."""

import os
import uuid
from pathlib import Path

import pytest

from broker.storage.directory import directories, identity
from broker.storage.directory.checkpoints import read_offsets, write_offsets
from broker.storage.directory.identity import DirectoryOwner
from broker.storage.errors import BadCheckpoint, ForeignDataDirectory
from broker.storage.segments.files import OpenFile
from tests.broker.storage.log_files import TOPIC_ID


def test_a_file_is_open_for_as_long_as_somebody_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    file = OpenFile(path)
    other = file
    fd = file.fileno()
    del file
    path.unlink()
    assert os.pread(fd, 7, 0) == b"content"
    del other
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    with pytest.raises(FileNotFoundError):
        OpenFile(path)


def test_checkpoints_are_written_as_kafka_does(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    assert read_offsets(path) == {}
    offsets = {("page_views", 0): 51200, ("page.views-x", 11): 2**62}
    write_offsets(path, offsets)
    assert path.read_text() == f"0\n2\npage_views 0 51200\npage.views-x 11 {2**62}\n"
    assert read_offsets(path) == offsets
    write_offsets(path, {})
    assert read_offsets(path) == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"0", b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n",
     b"0\n2\na 0 1\na 0 2\n", b"0\n1\na 0 1 2\n", b"\xff\xfe\0", bytes(100)],
)  # fmt: skip
def test_a_broken_checkpoint_is_noticed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(BadCheckpoint, match="checkpoint"):
        read_offsets(path)


def test_a_data_directory_belongs_to_one_broker_of_one_cluster(tmp_path: Path) -> None:
    assert identity.read_owner(tmp_path) is None
    identity.claim(tmp_path, DirectoryOwner("cluster-a", 1))
    identity.claim(tmp_path, DirectoryOwner("cluster-a", 1))
    assert identity.read_owner(tmp_path) == DirectoryOwner("cluster-a", 1)
    with pytest.raises(ForeignDataDirectory, match="to cluster cluster-a, this is cluster b"):
        identity.claim(tmp_path, DirectoryOwner("b", 1))
    with pytest.raises(ForeignDataDirectory, match="belongs to broker 1, this is broker 2"):
        identity.claim(tmp_path, DirectoryOwner("cluster-a", 2))
    assert identity.read_owner(tmp_path) == DirectoryOwner("cluster-a", 1)


def test_kafkas_own_meta_properties_are_understood(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Thu Nov 20 09:00:00 UTC 2025\ncluster.id=AbC=-_\nversion=0\nbroker.id=7\n"
    )
    assert identity.read_owner(tmp_path) == DirectoryOwner("AbC=-_", 7)
    (tmp_path / "meta.properties").write_text("broker.id=seven\ncluster.id=x\n")
    with pytest.raises(ForeignDataDirectory, match=r"cluster\.id or broker\.id is missing"):
        identity.read_owner(tmp_path)


def test_a_clean_stop_counts_once(tmp_path: Path) -> None:
    assert identity.take_clean_shutdown(tmp_path) is False
    identity.mark_clean_shutdown(tmp_path)
    assert identity.take_clean_shutdown(tmp_path) is True
    assert identity.take_clean_shutdown(tmp_path) is False


def test_a_topic_id_is_written_as_kafka_does(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    identity.create_partition_directory(directory, TOPIC_ID)
    text = (directory / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: D21cHppVSl6KOV8-TA-aEQ"
    assert identity.read_topic_id(directory) == TOPIC_ID
    assert [path.name for path in tmp_path.iterdir()] == ["topic-0"]


def test_a_directory_that_is_there_is_never_taken_over(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    identity.create_partition_directory(directory, TOPIC_ID)
    with pytest.raises(OSError, match="not empty"):
        identity.create_partition_directory(directory, uuid.uuid4())
    assert identity.read_topic_id(directory) == TOPIC_ID
    assert [path.name for path in tmp_path.iterdir()] == ["topic-0"]


def test_partition_directories_are_known_by_their_names(tmp_path: Path) -> None:
    partitions = [("a", 0), ("a-b", 12), ("x.y_z-3", 4), ("t" * 249, 99999)]
    for topic, partition in partitions:
        identity.create_partition_directory(
            directories.path_of(tmp_path, topic, partition), TOPIC_ID
        )
    for name in ("a", "a-", "-1", "a-01", "a-x", "a b-1", "a-1.0123-delete", "a-1.0123-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    found = directories.scan(tmp_path)
    assert [each.key for each in found] == sorted(partitions)
    assert all(directories.topic_id(each.path) == TOPIC_ID for each in found)
    assert directories.topic_id(tmp_path / "a-x") is None


@pytest.mark.parametrize("topic", ["topic", "t" * 249])
def test_directories_are_deleted_and_set_aside(tmp_path: Path, topic: str) -> None:
    def make() -> Path:
        path = directories.path_of(tmp_path, topic, 99999)
        identity.create_partition_directory(path, TOPIC_ID)
        return path

    deleted = [directories.mark_deleted(make()) for _ in range(3)]
    assert all(len(path.name) <= 255 for path in deleted)
    stray = directories.set_aside(make(), TOPIC_ID)
    assert stray.name.endswith(f".{TOPIC_ID.hex}-stray")
    another = directories.set_aside(make(), TOPIC_ID)
    assert another != stray
    kept = make()
    (tmp_path / "0123-new").mkdir()
    assert sorted(directories.remove_deleted(tmp_path)) == sorted(deleted)
    assert directories.remove_unfinished(tmp_path) == [tmp_path / "0123-new"]
    assert sorted(tmp_path.iterdir()) == sorted([stray, another, kept])
