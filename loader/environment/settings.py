"""What Spark is told, so that executors and planning find Python and what they import.

Rule 1: Spark unpacks the archive into the directory in which an executor works, and its Python
processes with it: a relative path leads there. It stands behind Spark's own on their path.

Rule 2: the interpreter that the driver names is the one that executors start, and the one that
Spark starts on the driver's host to plan: a data source's schema and partitions are found there, in
a process whose path comes from the environment of the JVM. So the environment must be set before
the JVM is started.

Rule 3: what the user has set stays; archives and paths are added to.

Rule 4: where all of it runs in one JVM, loopback is its address. Spark would ask for that of the
host's own name, and not start where the name has none.
"""

import shutil
import sys
from collections.abc import Mapping
from typing import Final

from loader.environment.errors import EnvironmentFailed
from loader.environment.packing import PackedEnvironment

__all__ = ["UNPACKED", "driver_environment", "spark_settings"]

UNPACKED: Final = "penstock-environment"
ARCHIVES: Final = "spark.archives"
EXECUTORS_PATH: Final = "spark.executorEnv.PYTHONPATH"
INTERPRETER: Final = "spark.pyspark.python"
LOCAL_ADDRESS: Final = "SPARK_LOCAL_IP"


def runs_here(master: str) -> bool:
    """Whether tasks run in the driver's own JVM, beside this Python."""
    return master == "local" or master.startswith("local[")


def spark_settings(
    packed: PackedEnvironment, master: str, conf: Mapping[str, str]
) -> dict[str, str]:
    """To be set over `conf`, the user's: the same on standalone, YARN and Kubernetes."""
    if runs_here(master):
        return {}
    archive = f"{packed.path.as_uri()}#{UNPACKED}"
    return {
        ARCHIVES: ",".join(each for each in (conf.get(ARCHIVES), archive) if each),
        EXECUTORS_PATH: ":".join(each for each in (UNPACKED, conf.get(EXECUTORS_PATH)) if each),
    }


def driver_environment(
    packed: PackedEnvironment | None,
    master: str,
    conf: Mapping[str, str],
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Variables that this process must have before it starts Spark's JVM.

    Without a pack, executors of a cluster have an environment of their own, and the user says
    which interpreter knows it.
    """
    if runs_here(master):
        address = environ.get(LOCAL_ADDRESS, "127.0.0.1")
        return {**_interpreter(sys.executable), LOCAL_ADDRESS: address}
    asked = conf.get(INTERPRETER) or environ.get("PYSPARK_PYTHON")
    if packed is None:
        return _interpreter(asked) if asked else {}
    interpreter = asked or f"python{packed.python_version}"
    if shutil.which(interpreter, path=environ.get("PATH")) is None:
        raise EnvironmentFailed(
            f"`{interpreter}`, which executors are to run, is not on this host: Spark plans with "
            f"it here too. Set {INTERPRETER} to a Python {packed.python_version} that is found "
            "on this host and on every executor's"
        )
    before = environ.get("PYTHONPATH", "").split(":")
    # Each once: this process may have been told before, for a session that has ended.
    path = dict.fromkeys([*map(str, packed.driver_path), *before])
    return {**_interpreter(interpreter), "PYTHONPATH": ":".join(each for each in path if each)}


def _interpreter(name: str) -> dict[str, str]:
    """Spark looks data sources up with the driver's, and then has executors run it."""
    return {"PYSPARK_PYTHON": name, "PYSPARK_DRIVER_PYTHON": name}
