"""Runs Apache Airflow as a user does who tries it: `airflow standalone`, with all its programs.

pip installs it once, into an environment of its own below `.cache`. The provider is built as a
wheel and installed beside it, for each Airflow that runs. PENSTOCK_AIRFLOW names another version.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.processes.server_process import (
    RunningServer,
    ServerFailed,
    ServerProcess,
    free_ports,
    http_page,
)

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_TRIED: Final = "3.3.2"
VERSION: Final = os.environ.get("PENSTOCK_AIRFLOW", _TRIED)
_PACKAGES: Final = (f"apache-airflow=={VERSION}", "apache-airflow-providers-openlineage==2.20.3")
_HOME: Final = (
    REPOSITORY / ".cache" / f"airflow-{VERSION}-{sys.version_info[0]}.{sys.version_info[1]}"
)


class AirflowUnavailable(Exception):
    """pip cannot install Airflow here; the message says why."""


def airflow_environment() -> Path:
    """Returns the folder of Airflow's environment. The first use takes minutes."""
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test processes may do this at the same time
        if not (_HOME / "installed").exists():
            _run(sys.executable, "-m", "venv", "--clear", str(_HOME / "venv"))
            pip = (str(_HOME / "venv/bin/python"), "-m", "pip", "install", "--quiet")
            # Later releases of its dependencies may not fit.
            constraints = Path(__file__).with_name("constraints.txt")
            options = [f"--constraint={constraints}"] if VERSION == _TRIED else []
            _run(*pip, "--disable-pip-version-check", *options, *_PACKAGES)
            (_HOME / "installed").touch()
    return _HOME / "venv"


def _run(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=_without_tests())
    if run.returncode:
        raise AirflowUnavailable(f"{' '.join(command)}: {run.stderr.strip()[-500:]}")


def _without_tests() -> dict[str, str]:
    """The environment, without the tests' options for Python."""
    names = {"PYTHONPATH", "PYTHONDEVMODE", "PYTHONWARNINGS", "PYTHONMALLOC"}
    return {name: value for name, value in os.environ.items() if name not in names}


class Airflow(RunningServer):
    """`with Airflow(directory, dags=…, environment=…) as airflow: airflow.trigger(…)`."""

    def __init__(
        self, directory: Path, *, dags: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        """`dags` are the texts of its files of DAGs by name; a DAG is paused unless it says
        otherwise. Raises AirflowUnavailable."""
        programs = airflow_environment() / "bin"
        folder, provider = directory / "dags", directory / "provider"
        folder.mkdir(parents=True)
        for name, text in dags.items():
            (folder / name).write_text(text)
        self._files = len(dags)
        _install_provider(programs, directory / "wheel", provider)
        self.port, *log_ports = free_ports(3)
        url = f"http://127.0.0.1:{self.port}"
        self.process = ServerProcess(
            ["setsid", str(programs / "airflow"), "standalone"],
            output=directory / "airflow.log",
            directory=directory,
            environment={
                "AIRFLOW_HOME": str(directory / "home"),
                "AIRFLOW__API__BASE_URL": url,
                "AIRFLOW__API__HOST": "127.0.0.1",
                "AIRFLOW__API__PORT": str(self.port),
                "AIRFLOW__API__WORKERS": "1",
                "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
                "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__CORE__PARALLELISM": "4",
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
                "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(log_ports[0]),
                "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(log_ports[1]),
                "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
                "PATH": f"{programs}:{os.environ['PATH']}",
                "PYTHONDEVMODE": "",
                "PYTHONPATH": str(provider),
                "PYTHONWARNINGS": "ignore",
                **environment,
            },
        )

    def ready(self) -> bool:
        """Whether all programs run, and the DAGs have been read."""
        code, body = http_page(self.port, "/api/v2/monitor/health")
        if code != 200:
            return False
        programs = json.loads(body)
        states = [programs[name]["status"] for name in ("scheduler", "triggerer", "dag_processor")]
        read_files = {dag["fileloc"] for dag in self.ask("/dags")["dags"]}
        errors = self.ask("/importErrors")["total_entries"]
        return states == ["healthy"] * 3 and len(read_files) + errors == self._files

    def ask(self, path: str, body: Mapping[str, object] | None = None, *, method: str = "") -> Any:
        """Asks the public API; with a body, by POST or another method. A refusal fails."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v2{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            method=method or ("GET" if body is None else "POST"),
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  http
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from None

    def trigger(self, dag: str, *, logical_date: str | None = None) -> str:
        """Starts a run; returns the path of its tasks."""
        run = self.ask(f"/dags/{dag}/dagRuns", {"logical_date": logical_date})
        return f"/dags/{dag}/dagRuns/{run['dag_run_id']}/taskInstances"

    def states(self, tasks: str) -> dict[str, str]:
        """The states of a run's tasks, by name."""
        return {task["task_id"]: task["state"] for task in self.ask(tasks)["task_instances"]}

    def task_log(self, tasks: str, task: str, attempt: int = 1) -> str:
        lines = self.ask(f"{tasks}/{task}/logs/{attempt}?full_content=true")["content"]
        return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)

    def returned(self, tasks: str, task: str) -> Any:
        """What the task has pushed by XCom."""
        return self.ask(f"{tasks}/{task}/xcomEntries/return_value?deserialize=true")["value"]

    def stop(self) -> None:
        """Ends all its programs: `standalone` does so on Ctrl-C."""
        if self.process.alive:
            os.kill(self.process.pid, signal.SIGINT)
            with suppress(ServerFailed):
                self.process.wait(within=60)
        self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # its session's, which setsid began
        self.process.kill()


def _install_provider(programs: Path, wheels: Path, target: Path) -> None:
    """As from PyPI, with its entry point; Airflow's environment is shared, and stays as it is."""
    build = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=REPOSITORY / "deploy" / "airflow",
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    (wheel,) = wheels.glob("*.whl")
    options = ("--quiet", "--no-deps", "--disable-pip-version-check", "--target", str(target))
    _run(str(programs / "python"), "-m", "pip", "install", *options, str(wheel))
