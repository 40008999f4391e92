"""Java options with which a JVM of Spark's is soon there, and costs little.

Half of the processor time of a short program with Spark is Java's own: it reads, verifies and links
ten thousand classes. Java can keep them in an archive that it maps instead. One is made below
`.cache/`, for this Java and this Spark, by whoever asks first; who asks meanwhile waits for it.
Nothing but time depends on it: where none can be made, and where a JVM cannot use it, all starts as
ever.
"""

import fcntl
import functools
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

from cluster.jars import find_java

CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "spark-classes"
SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Of an archive that is not for this JVM it would warn on its output.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"

_PATIENCE_SECONDS: Final = 120.0

# What most loads make Spark do.
_TRAINING: Final = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession

folder, options = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": options,
    "spark.local.dir": folder,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": f"file:{folder}",
}.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
rows = session.range(100).selectExpr("id", "id % 7 as seventh", "array(string(id)) as words")
rows.repartition(2).write.partitionBy("seventh").parquet(f"{folder}/rows")
read = session.read.parquet(f"{folder}/rows")
read.groupBy("seventh").count().join(rows, "seventh").orderBy("id").collect()
session.stop()
gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def quick_java() -> str:
    """For `spark.driver.extraJavaOptions`."""
    return " ".join(filter(None, [SMALL, _with_archive()]))


def quick_java_environment() -> dict[str, str]:
    """For programs that have their own options: `penstock up` and all that it starts."""
    options = _with_archive()
    return {"JDK_JAVA_OPTIONS": options} if options else {}


@functools.cache
def _with_archive() -> str:
    archive = CACHE / f"{_java_and_spark()}.jsa"
    if not archive.exists():
        _make(archive)
    return f"{_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else ""


def _java_and_spark() -> str:
    java = Path(find_java()).resolve()
    of = (java, java.stat().st_mtime_ns, pyspark.__file__, pyspark.__version__)
    return hashlib.sha256(repr(of).encode()).hexdigest()[:16]


def _make(archive: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as folder:
            fresh = Path(folder) / "archive.jsa"
            options = f"{SMALL} -XX:ArchiveClassesAtExit={fresh} -Djava.io.tmpdir={folder}"
            if _train(folder, options) and fresh.exists():
                fresh.replace(archive)


def _train(folder: str, options: str) -> bool:
    """Whether it came to its end, in time."""
    training = subprocess.Popen(
        [sys.executable, "-c", _TRAINING, folder, options],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # its JVM goes with it
    )
    try:
        return training.wait(_PATIENCE_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(training.pid, signal.SIGKILL)
        training.wait()
