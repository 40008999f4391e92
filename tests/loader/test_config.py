"""What a loader's configuration refuses, and how it says so."""

from typing import Any

import msgspec
import pytest

from loader.config import LoaderConfig


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("dead_share", 1.01, "`dead_share` must be between 0 and 1"),
        ("duplicate_share", -0.1, "`duplicate_share` must be between 0 and 1"),
        ("oldest", 0, "`oldest` must be positive"),
        ("newest", -1, "`newest` must not be negative"),
        ("forget_sources", 0, "`forget_sources` must be positive"),
        ("window", 7, "`window` must divide an hour"),
        ("keep_manifests", 9, "`keep_manifests` must be at least 10"),
        ("check_files_hours", -1, "`check_files_hours` must not be negative"),
        ("audit", "audit:8090", "`audit`: the URL 'audit:8090': the URL must begin with http://"),
        ("audit", "http://u:secret@a", "`audit`: the URL: a user and password"),
        ("audit", "http://a,http://b", "`audit`: must be one URL: a single audit covers all"),
        ("kerberos", {"principal": "me", "keytab": ""}, "needs a `principal` and its `keytab`"),
        ("spark", {"staged": "hdfs:///x"}, "`spark.staged` is of use with `master: yarn` only"),
        ("spark", {"master": "yarn", "staged": "/x"}, "`spark.staged: /x` must be a URL: hdfs://"),
        ("spark", {"conf": {"spark.submit.deployMode": "Cluster"}}, "runs in client mode only"),
    ],
)
def test_values_that_cannot_be(key: str, value: Any, why: str) -> None:
    known = {"root": "file:///x", "topics": ["a"]}
    assert msgspec.convert(known, LoaderConfig).topics == ("a",)
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert({**known, key: value}, LoaderConfig)


@pytest.mark.parametrize(
    ("spark", "why"),
    [
        ({"master": "spark://a:7077"}, "standalone clusters do not pass tickets to executors"),
        ({"conf": {"spark.kerberos.keytab": "/x"}}, "`kerberos` replaces `spark.kerberos.keytab`"),
    ],
)
def test_where_kerberos_would_be_of_no_use(spark: dict[str, Any], why: str) -> None:
    kerberos = {"principal": "me@X", "keytab": "/x"}
    known = {"root": "hdfs://x/y", "topics": ["a"], "kerberos": kerberos}
    assert msgspec.convert({**known, "spark": {"master": "yarn"}}, LoaderConfig).kerberos
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert({**known, "spark": spark}, LoaderConfig)
