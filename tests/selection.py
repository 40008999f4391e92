"""`--quick`: only tests that need no server and no JVM, and answer at once: `make quick`.
`--long`: those that are marked `long` as well, which no other run has.

Which these are is decided at collection, from code and marks. A test whose code, or that of a
fixture it asks for, comes by something that starts a server or a JVM, is left out: see reaching.py.
So is one that is marked `slow`, `long` or `fuzz`; and one that by its nature takes half a second
of a processor or more, because it measures, or is about large amounts: it is marked `not_quick`,
which says why. In the end, the run says how many were left out for which reason.

A property test has no more examples than the profile gives, also where it asks for more.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import hypothesis
import pytest

from tests.reaching import deselect, reaches

# Whoever starts a server, a program that runs on, or a JVM, does it with one of these.
STARTERS: Final = {
    "subprocess.Popen",
    "harness.server_process.ServerProcess",
    "harness.apache_kafka.kafka_classpath",
    "harness.hadoop.hadoop_classpath",
    "harness.tlc.tlc_classpath",
    "cluster.zookeeper.EmbeddedZooKeeper",
    "cluster.jars.find_java",
    "cluster.jars.find_class_path",
    "pyspark.sql.session.SparkSession",
    "pyspark.core.context.SparkContext",
}
NEEDS: Final = "starts a server or a JVM, or may"
MARKS: Final = {
    "long": "marked long: takes minutes of a processor; make test-long runs it",
    "slow": "marked slow: takes longer than ten seconds",
    "fuzz": "marked fuzz: grows with HYPOTHESIS_PROFILE=fuzz",
}
_LEFT_OUT: Final = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="only tests that need no server and no JVM"
    )
    parser.addoption("--long", action="store_true", help="tests that are marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick = config.getoption("--quick")
    if quick:
        why = {item: reason for item in items if (reason := why_not_quick(item))}
    elif not config.getoption("--long"):
        why = {item: MARKS["long"] for item in items if item.get_closest_marker("long")}
    else:
        return
    config.stash[_LEFT_OUT] = Counter(why.values())
    deselect(config, items, why.__contains__)
    if quick:
        for item in items:
            bound_examples(item, hypothesis.settings().max_examples)


def why_not_quick(item: pytest.Item) -> str:
    """Nothing, if it is quick."""
    for mark, reason in MARKS.items():
        if item.get_closest_marker(mark):
            return reason
    if reaches(item, STARTERS):
        return NEEDS
    marked = item.get_closest_marker("not_quick")
    return f"marked not_quick: {_reason(marked)}" if marked else ""


def bound_examples(item: Any, most: int) -> None:
    """Hypothesis looks its settings up when the test is run: at the function, or, of a state
    machine, at the class."""
    for owner, name in (
        (getattr(item, "function", None), "_hypothesis_internal_use_settings"),
        (getattr(item, "cls", None), "settings"),
    ):
        own = getattr(owner, name, None)
        if isinstance(own, hypothesis.settings) and own.max_examples > most:
            setattr(owner, name, hypothesis.settings(own, max_examples=most))


def _reason(mark: pytest.Mark) -> str:
    if len(mark.args) != 1 or not isinstance(mark.args[0], str) or not mark.args[0].strip():
        raise pytest.UsageError('not_quick is to say why: pytest.mark.not_quick("many seconds of")')
    return mark.args[0]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in told(_left_out(config)):
        terminalreporter.write_line(line)


def _left_out(config: pytest.Config) -> Counter[str]:
    none: Counter[str] = Counter()
    return config.stash.get(_LEFT_OUT, none)


def told(left_out: Mapping[str, int]) -> list[str]:
    """What was left out, the most first."""
    if not left_out:
        return []
    by_count = sorted(left_out.items(), key=lambda each: (-each[1], each[0]))
    lines = [f"  {count:5}  {reason}" for reason, count in by_count]
    return [f"left out {sum(left_out.values())} tests:", *lines]
