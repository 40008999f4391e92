"""Spark's jars and packs in a folder on HDFS."""

import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from loader.errors import StoreError
from loader.spark.java_classes import spark_jars
from loader.spark.packing import PackedEnvironment
from loader.spark.session import spark_settings, staged_settings
from loader.spark.staging import StagingFolder, archive_name
from tests.loader.spark.test_session import PACKED


@pytest.fixture
def hadoop(spark: SparkSession) -> Any:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return gateway


@pytest.fixture
def folder(hadoop: Any, hdfs: RunningHdfs, hdfs_root: str) -> StagingFolder:
    configuration = hadoop.jvm.org.apache.hadoop.conf.Configuration()
    for key, value in hdfs.configuration.items():
        configuration.set(key, value)
    return StagingFolder(f"{hdfs_root}/apps", hadoop, configuration)


@pytest.fixture
def packed(tmp_path: Path) -> PackedEnvironment:
    path = tmp_path / PACKED.path.name
    path.write_bytes(b"packed")
    return replace(PACKED, path=path)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar", "not-a-jar.txt"):
        (tmp_path / "jars" / name).write_text(name)
    return tmp_path / "jars"


def test_files_are_staged_once(
    folder: StagingFolder, hadoop: Any, packed: PackedEnvironment, jars: Path, tmp_path: Path
) -> None:
    first = [folder.stage_spark(jars), folder.stage_pack(packed)]
    again = [folder.stage_spark(jars), folder.stage_pack(packed)]
    assert [file.is_new for file in first] == [True, True]
    assert again == [replace(file, is_new=False) for file in first]
    assert first[0].uri.endswith(f"/apps/{archive_name(jars)}")
    assert first[1].bytes == len(b"packed")
    copy = tmp_path / "copy.zip"
    path = hadoop.jvm.org.apache.hadoop.fs.Path
    folder._files.copyToLocalFile(path(first[0].uri), path(copy.as_uri()))
    with zipfile.ZipFile(copy) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "a.jar": b"a.jar",
            "b.jar": b"b.jar",
        }
    (jars / "b.jar").write_text("B.jar")
    assert folder.find(archive_name(jars)) is None


def test_a_file_is_never_replaced(folder: StagingFolder, packed: PackedEnvironment) -> None:
    """Another one may stage at the same time. What a crash leaves is removed after a day."""
    staged = folder.stage_pack(packed)
    for age_seconds, is_left in ((3_600, True), (90_000, False)):
        abandoned = folder._at(f".{packed.path.name}.abandoned")
        folder._files.create(abandoned, True).close()
        folder._files.setTimes(abandoned, int(time.time() - age_seconds) * 1000, -1)
        packed.path.write_bytes(b"other bytes")
        assert not folder._put(packed.path).is_new
        assert folder._files.exists(abandoned) is is_left
        names = [each.getPath().getName() for each in folder._files.listStatus(folder._folder)]
        assert len(names) == 1 + is_left
    assert folder.find(packed.path.name) == replace(staged, is_new=False)
    packed.path.unlink()
    with pytest.raises(StoreError, match=r"cannot create hdfs://.*: .*FileNotFound.*"):
        folder._put(packed.path)


def test_a_load_uses_what_is_staged(
    folder: StagingFolder,
    packed: PackedEnvironment,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = spark_settings(packed, "yarn", {"spark.yarn.dist.archives": "hdfs:///mine.zip#mine"})
    assert staged_settings(folder, packed, settings) == {}
    assert [each.split(",")[0] for each in caplog.messages] == [
        "uploading Spark",
        "uploading the environment",
    ]
    archive = tmp_path / archive_name(spark_jars({}))
    archive.write_bytes(b"")
    spark = folder._put(archive)
    environment = folder.stage_pack(packed)
    assert staged_settings(folder, packed, settings) == {
        "spark.yarn.archive": spark.uri,
        "spark.yarn.dist.archives": f"hdfs:///mine.zip#mine,{environment.uri}#penstock-environment",
    }
    for key in ("spark.yarn.archive", "spark.yarn.jars"):
        assert staged_settings(folder, None, {key: "hdfs:///another/*"}) == {}
