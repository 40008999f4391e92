"""Loads into an HDFS that wants Kerberos: as docs/how-to/load-into-hdfs.md says, with a keytab
whose tickets end while a load goes on, and with what does not do.
"""

import base64
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq
import pytest

from harness.hadoop.hadoop import HDFS_JARS, hadoop_command
from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.spark_jvm import quick_java, quick_java_environment
from harness.logins.kdc import REALM, Kdc
from loader.config import Kerberos, LoaderConfig, Tasks
from tests.docs.pages import ROOT, blocks_of
from tests.docs.shell import Shell, follow
from tests.loader.application import BEGAN, Application
from tests.penstock.running import FORKS, REPOSITORY
from tests.system.loader.programs import LoadProgram, reported

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]

EVENTS: Final = 500
# Shorter than any load: Spark alone takes as long to start.
TICKETS_LIVE: Final = "4 seconds"


@pytest.fixture(scope="module")
def kerberized(
    kdc: Kdc, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RunningHdfs]:
    if HDFS_JARS.classpath is None:
        pytest.skip(f"HDFS cannot be had: {HDFS_JARS.why_not}")
    encrypted = getattr(request, "param", False)
    with RunningHdfs(tmp_path_factory.mktemp("hdfs"), kdc=kdc, encrypted=encrypted) as running:
        yield running


@pytest.fixture
def settings(kdc: Kdc, kerberized: RunningHdfs) -> dict[str, str]:
    """Of Spark."""
    return {
        **{f"spark.hadoop.{key}": value for key, value in kerberized.configuration.items()},
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join([quick_java(), *kdc.java_options]),
        # No connection outlives the ticket that it was opened with.
        "spark.hadoop.ipc.client.connection.maxidletime": "100",
        "spark.hadoop.ipc.client.connect.max.retries.on.sasl": "1",
        # Tickets of minutes may be got anew every minute: these are of seconds.
        "spark.hadoop.hadoop.kerberos.min.seconds.before.relogin": "1",
    }


@pytest.fixture
def load_as(
    kerberized: RunningHdfs, config: LoaderConfig, settings: Mapping[str, str], tmp_path: Path
) -> Callable[[Kerberos | None], LoadProgram]:
    def program(kerberos: Kerberos | None) -> LoadProgram:
        root = f"{kerberized.uri}/{tmp_path.name}"
        told = msgspec.structs.replace(
            config, root=root, kerberos=kerberos, tasks=Tasks(without_spark=0)
        )
        events = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",  # so that it can be searched
            "spark.eventLog.dir": f"file:{tmp_path}",
        }
        return LoadProgram(told, tmp_path, master="local[2]", conf={**settings, **events})

    return program


@pytest.mark.parametrize("kerberized", [True], indirect=True, ids=["encrypted"])
def test_a_load_outlives_its_tickets(  # noqa: PLR0917
    realm: Kdc,
    kerberized: RunningHdfs,
    application: Application,
    load_as: Callable[[Kerberos | None], LoadProgram],
    settings: dict[str, str],
    tmp_path: Path,
) -> None:
    """And nothing but its name is seen of the keytab, wherever Spark writes what it does."""
    application.write(EVENTS, time=BEGAN, step=200)
    keytab = realm.keytab("loader", life=TICKETS_LIVE)
    load = load_as(Kerberos(principal=f"loader@{REALM}", keytab=str(keytab)))
    code, output = load.run()

    assert code == 0, load.said
    assert reported(output)["rows"] == f"{EVENTS}"
    assert rows_on(kerberized.directory / "data", application.topic) == EVENTS
    assert realm.asked("loader") > 1
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"SparkListenerEnvironmentUpdate" in written
    key = keytab.read_bytes()[-36:-4]  # its last entry ends with the key, and its number
    for form in (key, key.hex().encode(), base64.b64encode(key)):
        assert form not in written
    settings["spark.hadoop.hadoop.rpc.protection"] = "authentication"
    refused = load_as(Kerberos(principal=f"loader@{REALM}", keytab=str(keytab)))
    assert refused.run()[0] == 1
    assert "must have the NameNode's value of `hadoop.rpc.protection`)" in refused.said


def rows_on(data: Path, table: str) -> int:
    """Of Parquet files, in a DataNode's folder: they have one block each."""
    blocks = [each for each in data.rglob("blk_*") if each.suffix != ".meta"]
    files = [each for each in blocks if each.read_bytes()[:4] == b"PAR1"]
    columns = [pq.read_table(each).to_pydict() for each in files]
    return sum(each["_topic"].count(table) for each in columns if "_topic" in each)


def test_the_how_to(
    realm: Kdc,
    kerberized: RunningHdfs,
    application: Application,
    config: LoaderConfig,
    tmp_path: Path,
) -> None:
    application.write(50, time=round(time.time() * 1_000))
    FORKS.write_command(tmp_path / "penstock")
    conf, shell = kerberized.directory / "conf", "org.apache.hadoop.fs.FsShell"
    words = hadoop_command(shell, configuration=conf, temporary=tmp_path, heap="128m")
    (tmp_path / "hdfs").write_text(f'#!/bin/sh\nshift\nexec {shlex.join(words)} "$@"\n')
    (tmp_path / "hdfs").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "KRB5CCNAME": str(tmp_path / "cache"), "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": " ".join(realm.java_options), **quick_java_environment(),
    }  # fmt: skip
    here = {
        "dc1-a:9092": config.brokers[0], "http://dc1-a:8081": config.registry,
        "hdfs://namenode:8020": kerberized.uri, "/etc/hadoop/conf": str(conf),
        "/etc/penstock/penstock.keytab": str(realm.keytab("penstock")), "EXAMPLE.ORG": REALM,
        "/etc/penstock/loader.yaml": "loader.yaml",
        "page_views": application.topic, "local[*]": "local[2]",
    }  # fmt: skip

    def aimed(text: str) -> str:
        return reduce(lambda said, shown: said.replace(shown, here[shown]), here, text)

    blocks, here_run = blocks_of(ROOT / "docs/how-to/load-into-hdfs.md"), Path(__file__).name
    with Shell(tmp_path, environment) as typed:
        follow(typed, tmp_path, blocks, lambda block: here_run in str(block.remarks), aimed)


def test_a_ticket_that_has_ended(
    realm: Kdc,
    application: Application,
    load_as: Callable[[Kerberos | None], LoadProgram],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody renews what a person has got by `kinit`."""
    application.write(1, time=BEGAN)
    realm.keytab("person")
    realm.kinit("person", tmp_path / "cache", life="1s")
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "cache"))
    load = load_as(None)
    code, output = load.run()

    assert (code, output) == (1, "")
    (line,) = [each for each in load.said.splitlines() if "Kerberos" in each]
    assert "no Kerberos ticket: configure `kerberos`, or run `kinit`" in line
    assert "Traceback" not in load.said


def test_what_kerberos_says_no_to(realm: Kdc, settings: Mapping[str, str], tmp_path: Path) -> None:
    """By one JVM, since each attempt is Java's alone: a line for each, and what helps."""
    good = realm.keytab("good")
    changed = tmp_path / "changed"
    changed.write_bytes(realm.keytab("changed").read_bytes())
    realm.change_key("changed")
    removed = realm.keytab("removed")
    realm.remove("removed")
    said = attempts(
        settings,
        *(("good", tmp_path / "none"), ("other", good), ("changed", changed)),
        *(("removed", removed), ("good", good)),
    )
    assert said[0] == f"the keytab {tmp_path}/none cannot be read: no such file or directory"
    assert "the keytab has no key for this principal, or is invalid" in said[1]
    assert "differs from the KDC's: export it again" in said[2]
    assert "the KDC knows no such principal" in said[3]
    assert said[4:] == ["logged in"]
    for line in said[1:4]:
        assert line.startswith("no Kerberos ticket for ")
        assert "Exception" not in line
    realm.kill()
    try:
        (away,) = attempts(settings, ("good", good))
    finally:
        realm.start()
    assert away.endswith("(check that the KDC runs and that krb5.conf has its address)")
    (open_hadoop,) = attempts(
        {**settings, "spark.hadoop.hadoop.security.authentication": "simple"}, ("good", good)
    )
    assert open_hadoop.startswith("`kerberos` is configured, but not enabled in Hadoop")


_ATTEMPTS: Final = """
import sys
import msgspec
from pyspark import SparkContext
from loader.config import Kerberos
from loader.errors import LoaderError
from loader.store.kerberos import log_in
from loader.spark.session import end_jvm, start_jvm

settings, attempts = msgspec.json.decode(sys.argv[1])
start_jvm(settings, 2)
for principal, keytab in attempts:
    try:
        log_in(SparkContext._jvm, Kerberos(principal=principal, keytab=keytab), settings)
        print("logged in")
    except LoaderError as error:
        print(error)
end_jvm()
"""


def attempts(settings: Mapping[str, str], *keytabs: tuple[str, Path]) -> list[str]:
    """What comes of them, one after the other in a JVM of their own."""
    told = [(f"{name}@{REALM}", str(keytab)) for name, keytab in keytabs]
    arguments = msgspec.json.encode((settings, told)).decode()
    ended = subprocess.run(
        [sys.executable, "-c", _ATTEMPTS, arguments],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()
