"""What Spark says when executors cannot run our Python, as one line that says what to do.

Spark tells it in a trace of a hundred lines, after four attempts. The wording is that of Spark 4;
a test has Spark say it anew.
"""

import re
from collections.abc import Callable
from typing import Final

from loader.environment.errors import EnvironmentFailed

__all__ = ["environment_failure"]

_MISMATCH: Final = re.compile(
    r"Python in worker has different version: (?P<there>[\d.]+)"
    r" than that in driver: (?P<here>[\d.]+)"
)
_NO_INTERPRETER: Final = re.compile(
    r'Cannot run program "(?P<name>[^"]+)"[^\n]*?: (?P<why>error=\d+[^\n]*)'
)
_NO_MODULE: Final = re.compile(
    r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)"
    r"|\[PACKAGE_NOT_INSTALLED\] (?P<package>\w+)"
)
_NOT_LOADED: Final = re.compile(
    r"ImportError: (?P<why>[^\n]*(?:GLIBC|shared object|ELF|undefined symbol)[^\n]*)"
)
_PLANNING: Final = re.compile(
    r"Python worker exited unexpectedly [^\n]*\n\s+at [\w.]+\.PythonPlannerRunner\."
)


def _mismatch(found: re.Match[str]) -> str:
    return (
        f"executors run Python {found['there']} and this driver runs {found['here']}: set "
        f"spark.pyspark.python to a Python {found['here']} that every executor has"
    )


def _no_interpreter(found: re.Match[str]) -> str:
    return (
        f"executors cannot start `{found['name']}` ({found['why'].strip()}): set "
        "spark.pyspark.python to an interpreter that every executor has"
    )


def _no_module(found: re.Match[str]) -> str:
    return (
        f"executors have no Python module `{found['name'] or found['package']}`: --pack-env ships "
        "what `penstock[loader]` requires, anything else must be installed for their interpreter"
    )


def _not_loaded(found: re.Match[str]) -> str:
    return (
        f"executors cannot load what this driver packed ({found['why'].strip()}): pack on a host "
        "with their processor and a C library no newer than theirs"
    )


def _planning(found: re.Match[str]) -> str:
    return (
        "the Python that executors run (spark.pyspark.python) cannot plan on this host: run with "
        "--pack-env, or install `penstock[loader]` for it here too"
    )


_KNOWN: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_MISMATCH, _mismatch),
    (_NO_INTERPRETER, _no_interpreter),
    (_NOT_LOADED, _not_loaded),
    (_NO_MODULE, _no_module),
    (_PLANNING, _planning),
)


def environment_failure(error: BaseException) -> EnvironmentFailed | None:
    """What was wrong with the executors' Python, if that is why Spark gave up."""
    said = str(error)
    for pattern, line in _KNOWN:
        if found := pattern.search(said):
            return EnvironmentFailed(line(found))
    return None
