"""The time to start a registry, and its memory with schemas."""

import time
from functools import partial

from bench.figures.measurement import Figure, Goal, NotMeasured, Sample
from bench.figures.processes import proportional_bytes, resident_bytes
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.registry_contents import REGISTER, fill, ids_of, registry_of
from bench.loads.registry_load import load
from bench.loads.registry_requests import get, numbered
from bench.loads.requests import AnswerError
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import ServerFailed

_ANSWERS = Figure("seconds to the first answer", 2)
_WRITES = Figure("seconds to the first write", 2)
_MEMORY = Figure("RSS, MB")
_PROPORTIONAL = Figure("Pss, MB")
_CONNECTIONS = 16
_PATIENCE = 600.0
_PAUSE = 0.005


def _seconds_until(process: RegistryProcess, path: str) -> float:
    """Start the process; return the seconds until the path is served."""
    start_time = time.perf_counter()
    process.process.spawn()
    while process.ask("GET", path).status != 200:
        if not process.process.alive:
            raise ServerFailed(f"exited during its start\n{process.process.last_words()}")
        if time.perf_counter() - start_time > _PATIENCE:
            raise ServerFailed(f"did not start within {_PATIENCE:g} s")
        time.sleep(_PAUSE)
    return time.perf_counter() - start_time


def _memory(pid: int) -> dict[Figure, float]:
    return {_MEMORY: resident_bytes(pid) / 1e6, _PROPORTIONAL: proportional_bytes(pid) / 1e6}


def _start_empty(context: CaseContext) -> Sample:
    process = registry_of(context).started_here().empty
    try:
        seconds = _seconds_until(process, "/subjects")
        return {_ANSWERS: seconds, **_memory(process.process.pid)}
    finally:
        process.stop()


def _start(context: CaseContext, *, gently: bool) -> Sample:
    registry = registry_of(context)
    process = registry.started_here().process
    if gently:
        process.terminate()
    else:
        process.kill()
    start_time = time.perf_counter()
    answers = _seconds_until(process, f"/schemas/ids/{ids_of(context)[-1]}")
    memory = _memory(process.process.pid)
    while not _registers(process):
        if time.perf_counter() - start_time > _PATIENCE:
            raise AnswerError(f"no registration within {_PATIENCE:g} s")
        time.sleep(_PAUSE)
    return {_ANSWERS: answers, _WRITES: time.perf_counter() - start_time, **memory}


def _registers(process: RegistryProcess) -> bool:
    subject = f"started-{time.time_ns()}"
    return process.register(subject, "string").status == 200


def _use(context: CaseContext) -> Sample:
    """The memory after every schema was fetched and registered again."""
    registry = registry_of(context)
    if registry.pid is None:
        raise NotMeasured("the process ID of the registry is unknown")
    for requests in (
        (get(f"/schemas/ids/{schema_id}") for schema_id in ids_of(context)),
        numbered(REGISTER, range(context.scale.schemas)),
    ):
        load(registry, requests, connections=_CONNECTIONS, seconds=_PATIENCE)
    return _memory(registry.pid)


_SOON = Goal(_ANSWERS, at_most=5)

PROFILE = Profile(
    "registry-startup",
    "start with an empty topic and with 10,000 schemas of 1 KB; memory",
    (
        Case("nothing registered", _start_empty),
        Case("10,000 schemas, after SIGKILL", partial(_start, gently=False), (_SOON,)),
        Case("10,000 schemas, after a stop", partial(_start, gently=True), (_SOON,)),
        Case(
            "10,000 schemas, all in use",
            _use,
            (Goal(_MEMORY, ahead=True),),
        ),
    ),
    prepare=fill,
)
