"""Whole loads: from a broker into files, one loader on a table at a time."""

import re
import shutil
import threading
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from loader.config import LoaderConfig
from loader.errors import LoaderError, RunTaken
from loader.run.load import sole_loader
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import load_once, rows_of


def test_everything_lands_once(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    application.write(1_000, time=BEGAN, step=3_600)  # one hour
    application.write(500, time=BEGAN + HOUR, partition=1)
    first = load_once(spark, config)
    assert (first.rows, first.duplicates, first.dead) == (1_500, 0, 0)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)

    application.write(10, time=BEGAN)
    second = load_once(spark, config)
    assert second.rows == 10
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    assert load_once(spark, config).did_nothing

    otherwise = msgspec.structs.replace(config, root=f"file:{tmp_path}/root/")
    with sole_loader(config.root, application.topic), pytest.raises(RunTaken, match="on this host"):
        load_once(spark, otherwise)

    shutil.rmtree(tmp_path / "root/_penstock" / application.topic)
    with pytest.raises(LoaderError, match="already has files"):
        load_once(spark, config)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)


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
    with ExitStack() as stack:
        stack.enter_context(sole_loader(root, "clicks"))
        ending = threading.Timer(0.5, stack.close)
        ending.start()
        with sole_loader(root, "clicks", patience=60):
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
