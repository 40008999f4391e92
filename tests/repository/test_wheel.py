"""The wheel: one package, and programs that run beside somebody else's `broker`."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from deploy.bundle.wheels import MODULES
from harness.processes.server_process import ServerProcess, free_ports
from schemas.event_schemas import BUILT_IN
from wire.record_batches.record_check import NATIVE

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    *("agent", "audit", "broker", "client", "cluster", "columns", "ground", "ledger"),
    *("loader", "mirror", "registry", "schemas", "wire"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sources, with the build back end that is installed here."""
    return built_in(tmp_path_factory.mktemp("wheel"))


def built_in(directory: Path, **environment: str) -> Path:
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={directory}"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *build, str(ROOT)],
        check=True,
        env={**os.environ, **environment},
    )
    (built,) = directory.glob("*.whl")
    return built


@pytest.mark.slow
def test_it_holds_one_package_and_what_spark_looks_for(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = [path for path in archive.namelist() if ".dist-info/" not in path]
        metadata = [path for path in archive.namelist() if path.endswith("licenses/LICENSE")]
    assert {path.split("/")[0] for path in files} == {"penstock", "pyspark_penstock"}
    assert {path.split("/")[2] for path in files if path.startswith("penstock/programs/")} == set(
        PROGRAMS
    )
    assert "penstock/py.typed" in files
    sources = {
        str(path.relative_to(ROOT))
        for folder in (*PROGRAMS, "penstock", "pyspark_penstock")
        for path in (ROOT / folder).rglob("*.py")
    }
    packed = {path.removeprefix("penstock/programs/") for path in files if path.endswith(".py")}
    assert packed == sources
    assert metadata
    schemas = {f"schemas/avro/{name.rpartition('.')[2]}.avsc" for name in BUILT_IN}
    assert {f"penstock/programs/{path}" for path in schemas} <= set(files)
    typed = ("payments", "shop")
    assert {f"penstock/demo/schemas/{name}-value.avsc" for name in typed} <= set(files)
    page = {path.relative_to(ROOT) for path in (ROOT / "audit/page").rglob("*") if path.is_file()}
    assert {f"penstock/programs/{path}" for path in page} <= set(files)
    assert "penstock/programs/audit/page/vendor/uplot/LICENSE" in files


@pytest.mark.slow
def test_it_is_of_one_platform_if_there_was_a_compiler(wheel: Path, tmp_path: Path) -> None:
    without = built_in(tmp_path, CC="false")
    if NATIVE:
        assert not wheel.name.endswith("-py3-none-any.whl")
    assert without.name.endswith("-py3-none-any.whl")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = {f"penstock/programs/{name}{suffix}" for name in MODULES}
    for built, expected in ((wheel, modules if NATIVE else set()), (without, set())):
        with zipfile.ZipFile(built) as archive:
            found = {path for path in archive.namelist() if path.endswith((".so", ".c"))}
        assert found == expected


@pytest.mark.slow
def test_it_runs_beside_a_package_of_the_same_name(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={python}"]
    subprocess.run([*pip, *install], check=True)
    site = Path(
        subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        ).strip()
    )
    # What Penstock depends on is taken from here; the way to this repository is not.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "broker").mkdir()
    (site / "broker" / "__init__.py").write_text("raise RuntimeError('somebody else’s broker')\n")

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments,
            input=stdin,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    ended = run(str(python), "-c", "import broker")
    assert "somebody else’s broker" in ended.stderr
    program = "import penstock, broker.program; print(broker.program.__file__)"
    ended = run(str(python), "-c", program)
    assert ended.stdout.strip() == str(site / "penstock" / "programs" / "broker" / "program.py")

    program = str(home / "bin" / "penstock")
    assert run(program, "--version").stdout.startswith("penstock 0.")
    samples = run(str(python), "-c", "from penstock.demo.samples import *; schema_text(SAMPLES[0])")
    assert (samples.returncode, samples.stderr) == (0, "")
    port, http_port, zookeeper_port = free_ports(3)
    settings = {
        "id": 1,
        "data_dir": tmp_path / "broker",
        "port": port,
        "http_port": http_port,
        "zookeeper": "embedded",
        "zookeeper_port": zookeeper_port,
        "zookeeper_dir": tmp_path / "zookeeper",
    }
    overrides = [f"--set={key}={value}" for key, value in settings.items()]
    with ServerProcess([program, "broker", *overrides], output=tmp_path / "broker.log") as broker:
        broker.spawn()
        broker.wait_ready(lambda: "broker ready" in broker.log(), within=60)
        at = ("--bootstrap", f"127.0.0.1:{port}")
        ended = run(program, "topics", "create", "lines", *at)
        assert (ended.returncode, ended.stderr) == (0, "")
        ended = run(program, "produce", "lines", *at, stdin="a line\n")
        assert (ended.returncode, ended.stderr) == (0, "")
        ended = run(program, "consume", "lines", "--from", "beginning", "--to-end", *at)
        assert (ended.returncode, ended.stdout) == (0, "a line\n")
        assert broker.terminate() == 0
