"""A pipeline that is shown: programs, made up."""

from pathlib import Path

from penstock.up.programs import ProgramPhase, ProgramStatus

NOW = 1_800_000_000.0
NAMES = ("zookeeper", "broker", "registry", "agent", "loader", "audit")
DIRECTORY = Path("/somewhere/penstock-data")


def program(
    name: str,
    phase: ProgramPhase = ProgramPhase.RUNNING,
    *,
    since: float = NOW - 720,
    restarts: int = 0,
    ended: str = "",
    last_lines: tuple[str, ...] = (),
    retry_at: float = 0.0,
) -> ProgramStatus:
    return ProgramStatus(
        name=name,
        phase=phase,
        address="" if name == "loader" else f"127.0.0.1:{2000 + NAMES.index(name)}",
        log=f"/somewhere/penstock-data/logs/{name}.log",
        since=since,
        pid=7,
        restarts=restarts,
        ended=ended,
        last_lines=last_lines,
        retry_at=retry_at,
    )


def programs(
    phase: ProgramPhase = ProgramPhase.RUNNING, *others: ProgramStatus
) -> tuple[ProgramStatus, ...]:
    """All six in that phase, but for these."""
    named = {each.name: each for each in others}
    return tuple(named.get(name) or program(name, phase) for name in NAMES)


DEAD = program(
    "audit",
    ProgramPhase.DEAD,
    since=NOW - 1,
    ended="killed by SIGKILL",
    last_lines=("first", "second \x1b[2J", "third", "fourth"),
    retry_at=NOW + 3.4,
)
