"""How often a load calls the store: a call is one or several of a NameNode, or requests to S3."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from loader.config import CompletenessConfig, LoaderConfig
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.values.tables import hour_of
from tests.loader.application import HOUR, Application
from tests.loader.counted_stores import ROOT, CountedStore, OnlyStores
from tests.loader.loads import Listening


def test_a_load_with_nothing_new_makes_few_calls_whatever_was_closed(
    application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """They are for two manifests, their markers, batches that wait to be compared, and the folders
    of young hours, whose unmodified files are not compared again."""
    now = int(time.time())
    # No further hour becomes complete in the next half hour.
    settle = CompletenessConfig(settle=now % 3_600 + 1_800.0, deadline=100 * 365 * 86_400.0)
    config = msgspec.structs.replace(config, root=ROOT, completeness=settle)
    began = hour_of(now * 1000) - 40 * HOUR
    calls: dict[bool, list[dict[str, int]]] = {False: [], True: []}
    for _ in range(2):
        application.write(20, time=began)
        for expected, counts in calls.items():
            store = CountedStore(tmp_path)
            spark: Any = OnlyStores(store)
            (outcome,) = load(config, LoadRequest(), lambda: spark, Listening())  # noqa: B023
            assert outcome.error is None
            assert outcome.did_nothing == expected
            counts.append(dict(+store.calls))
        began += 30 * HOUR
    of_all_tables = Counter(prove=1, list=1, read=2, replace=2)
    first = Counter(list=3, list_recursively=1, read=7)
    assert calls[True][0] == of_all_tables + first
    second = Counter(list_recursively=1, read=1)  # a day and a marker more
    assert calls[True][1] == of_all_tables + first + second
    assert [sum(counts.values()) for counts in calls[False]] == [41, 37]
    assert len(list((tmp_path / application.topic).glob("dt=*/hour=*"))) == 2


def test_a_merge_by_the_driver_lists_no_files_of_its_own(
    application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """The two listings are for the hour before it is merged, and for the check after the load."""
    began = hour_of(int(time.time() * 1000)) - 2 * HOUR
    for partition in range(2):
        application.write(10, time=began, partition=partition)
    settle = CompletenessConfig(settle=0.0, deadline=100 * 365 * 86_400.0)
    store = CountedStore(tmp_path)
    spark: Any = OnlyStores(store)
    (outcome,) = load(
        msgspec.structs.replace(config, root=ROOT, completeness=settle),
        LoadRequest(),
        lambda: spark,
        Listening(),
    )
    assert (outcome.error, outcome.merged_files) == (None, 2)
    assert store.calls["list_recursively"] == 2
