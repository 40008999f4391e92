"""Loads on a YARN in Hadoop's secure mode, and onto an HDFS with Kerberos and permissions: with a
keytab whose tickets and tokens end while a load goes on, with a ticket by `kinit`, and with what
does not do.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq
import pytest

from harness.hadoop.hadoop import YARN_JARS
from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.yarn import EXECUTOR, EXECUTORS, RunningYarn
from harness.logins.kdc import REALM, Kdc
from harness.processes.frozen_processes import freeze
from harness.processes.waiting import wait_until
from loader.config import Kerberos, LoaderConfig, Tasks
from tests.loader.application import BEGAN, Application, landed
from tests.system.loader.programs import LoadProgram, reported

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7200)]

EVENTS: Final = 800
TASKS: Final = 8
TICKETS_LIVE: Final = "20 seconds"
TOKENS_LIVE_SECONDS: Final = 80
# Spark gets new tokens after three quarters of their lifetime: after two times the first are dead.
RENEWALS: Final = 2
WITHIN: Final = 1_500.0
LOADER: Final = "loader"
PERSON: Final = "person"
STAGED: Final = "/apps/penstock"


@pytest.fixture(scope="module")
def secure_hdfs(
    kdc: Kdc, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RunningHdfs]:
    """The loader and a person have homes there, and everybody may write to two folders. Tokens
    live for a day, or for so many seconds as a test asks for."""
    if YARN_JARS.classpath is None:
        pytest.skip(f"YARN is not available: {YARN_JARS.why_not}")
    life = f"{getattr(request, 'param', 86_400) * 1_000}"
    settings = {
        "dfs.permissions.enabled": "true",
        "dfs.namenode.delegation.token.max-lifetime": life,
        "dfs.namenode.delegation.token.renew-interval": life,
    }
    with RunningHdfs(tmp_path_factory.mktemp("hdfs"), kdc=kdc, settings=settings) as running:
        running.as_superuser("-mkdir", "-p", "/logs", STAGED, f"/user/{LOADER}", f"/user/{PERSON}")
        running.as_superuser("-chmod", "1777", "/logs", STAGED)
        for user in (LOADER, PERSON):
            running.as_superuser("-chown", user, f"/user/{user}")
        yield running


@pytest.fixture(scope="module")
def secure_yarn(
    kdc: Kdc, secure_hdfs: RunningHdfs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningYarn]:
    with RunningYarn(tmp_path_factory.mktemp("yarn") / "yarn", secure_hdfs, kdc=kdc) as running:
        yield running


@pytest.fixture
def load_as(
    secure_hdfs: RunningHdfs, secure_yarn: RunningYarn, config: LoaderConfig, tmp_path: Path
) -> Callable[[Kerberos | None], LoadProgram]:
    """Without a keytab, with the tickets in `tickets`; with Hadoop's configuration in `conf`, if
    there is one."""
    root = f"{secure_hdfs.uri}/logs/{tmp_path.name}"
    tasks = Tasks(records=EVENTS // TASKS, without_spark=0)
    conf = {
        **secure_yarn.conf,
        # Tokens travel to executors by Spark's own protocol.
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # Tickets of minutes may be got anew every minute: these are of seconds.
        "spark.hadoop.hadoop.kerberos.min.seconds.before.relogin": "1",
    }

    def program(kerberos: Kerberos | None) -> LoadProgram:
        of_hadoop = {"HADOOP_CONF_DIR": str(tmp_path / "conf")}
        return LoadProgram(
            msgspec.structs.replace(config, root=root, kerberos=kerberos, tasks=tasks),
            tmp_path,
            master="yarn",
            conf=conf,
            environment={
                **secure_yarn.environment,
                "KRB5CCNAME": str(tmp_path / "tickets"),
                **(of_hadoop if (tmp_path / "conf").exists() else {}),
            },
            staged=f"{secure_hdfs.uri}{STAGED}",
        )

    return program


def of_keytab(user: str, keytab: Path) -> Kerberos:
    return Kerberos(principal=f"{user}@{REALM}", keytab=str(keytab))


@pytest.mark.parametrize("secure_hdfs", [TOKENS_LIVE_SECONDS], indirect=True, ids=["short tokens"])
def test_a_load_outlives_its_tickets_and_tokens(  # noqa: PLR0917
    kdc: Kdc,
    secure_hdfs: RunningHdfs,
    secure_yarn: RunningYarn,
    application: Application,
    load_as: Callable[[Kerberos | None], LoadProgram],
    tmp_path: Path,
) -> None:
    """Its executors wait until theirs are dead. Another load has nothing to do."""
    application.write(EVENTS, time=BEGAN, step=200)
    load = load_as(of_keytab(LOADER, kdc.keytab(LOADER, life=TICKETS_LIVE)))
    assert load.run("--stage-spark", "--pack-env")[0] == 0, load.said
    tickets = kdc.asked(LOADER)
    with load.start("--pack-env") as running:
        try:
            with frozen_python(secure_yarn, running):
                wait_for_new_tokens(secure_hdfs, running)
                staged = secure_hdfs.as_superuser("-ls", "-R", f"/user/{LOADER}")
            output, _ = running.communicate(timeout=WITHIN)
        finally:
            running.kill()
    print(load.said)
    assert running.returncode == 0, load.said
    assert "is not staged" not in load.said
    assert reported(output)["rows"] == f"{EVENTS}"
    assert kdc.asked(LOADER) - tickets > RENEWALS
    # Nobody else may read an application's files, and the keytab is not among them.
    assert re.search(rf"drwx------ .* {LOADER} .*/\.sparkStaging/application_\w+\n", staged)
    assert "__spark_conf__" in staged
    assert "keytab" not in staged
    last = secure_yarn.applications("FINISHED")[-1]
    assert (last["user"], last["finalStatus"]) == (LOADER, "SUCCEEDED")
    wait_until(lambda: secure_yarn.containers() == [], what="containers end")

    assert load.run("--pack-env")[0] == 3, load.said
    assert landed(rows_of(secure_hdfs, application.topic, tmp_path)) == sorted(application.written)


@contextlib.contextmanager
def frozen_python(yarn: RunningYarn, load: subprocess.Popen[str]) -> Iterator[None]:
    """Stops the Python of all executors before a task ends. The executors go on."""

    def running() -> set[int]:
        assert load.poll() is None, "the load ended before its tasks were seen"
        return {child for executor in yarn.containers(EXECUTOR) for child in children(executor)}

    frozen: set[int] = set()
    try:
        while len(frozen) < EXECUTORS:
            what = "executors start Python"
            for pid in wait_until(lambda: running() - frozen, within=WITHIN, every=0.02, what=what):
                freeze(pid)
                frozen.add(pid)
        yield
    finally:
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def children(pid: int) -> list[int]:
    """None of a process that has ended."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                pids += map(int, (thread / "children").read_text().split())
    return pids


def wait_for_new_tokens(hdfs: RunningHdfs, load: subprocess.Popen[str]) -> None:
    def issued() -> int:
        assert load.poll() is None, "the load ended"
        return hdfs.namenode.calls()["GetDelegationToken"]

    before = issued()
    wait_until(lambda: issued() >= before + RENEWALS, within=WITHIN, what="tokens are renewed")


def rows_of(hdfs: RunningHdfs, topic: str, folder: Path) -> list[dict[str, object]]:
    """Reads the table, as the superuser."""
    hdfs.as_superuser("-copyToLocal", f"/logs/{folder.name}/{topic}", str(folder / "table"))
    files = (folder / "table").rglob("part-*")
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_a_load_by_hand(
    kdc: Kdc,
    secure_hdfs: RunningHdfs,
    application: Application,
    load_as: Callable[[Kerberos | None], LoadProgram],
    tmp_path: Path,
) -> None:
    """With the ticket that a person has got by `kinit`."""
    application.write(EVENTS, time=BEGAN, step=200)
    kdc.kinit(PERSON, tmp_path / "tickets")
    load = load_as(None)
    assert load.run("--stage-spark", "--pack-env")[0] == 0, load.said
    code, output = load.run("--pack-env")
    assert code == 0, load.said
    assert reported(output)["rows"] == f"{EVENTS}"
    assert landed(rows_of(secure_hdfs, application.topic, tmp_path)) == sorted(application.written)


def test_what_is_refused(
    kdc: Kdc,
    secure_yarn: RunningYarn,
    application: Application,
    load_as: Callable[[Kerberos | None], LoadProgram],
    tmp_path: Path,
) -> None:
    """A line says what, where and what to do."""
    application.write(1, time=BEGAN)
    before = secure_yarn.applications()
    old = tmp_path / "old.keytab"
    shutil.copy(kdc.keytab("changed"), old)
    kdc.change_key("changed")
    assert "differs from the KDC's: export it again" in refusal(load_as(of_keytab("changed", old)))

    assert "no Kerberos ticket: configure `kerberos`, or run `kinit`" in refusal(load_as(None))

    homeless = of_keytab("homeless", kdc.keytab("homeless"))
    line = refusal(load_as(homeless), "create the home of the loader's user: `hdfs dfs -mkdir -p")
    assert "homeless may not write to /user, where Spark puts an application's files" in line

    shutil.copytree(secure_yarn.directory / "conf", tmp_path / "conf")
    site = tmp_path / "conf" / "yarn-site.xml"
    site.write_text(site.read_text().replace("yarn.resourcemanager.principal", "it.is.not.known"))
    line = refusal(load_as(homeless))
    assert f"(HADOOP_CONF_DIR is {site.parent}: hdfs-site.xml and yarn-site.xml there must" in line
    assert secure_yarn.applications() == before


def refusal(load: LoadProgram, cure: str = "") -> str:
    """The only line of a load that fails, besides what it did, and what to do."""
    code, output = load.run()
    assert (code in {1, 7}, output) == (True, ""), load.said
    lines = [line for line in load.said.splitlines() if not line[:4].isdigit()]
    assert "Traceback" not in load.said
    line, *advice = lines
    assert line.startswith("penstock: ")
    assert cure in "".join(advice)
    assert len(advice) <= 1
    return line
