"""A small release is made twice, by processes that have little in common, and compared."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from deploy.bundle.archives import members_in, write_gz
from tests.bundle.twice import differences, made_with

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_MAKE: Final = """
import sys
from pathlib import Path
from deploy.bundle import agent, collection
from deploy.bundle.packages import debian_package, host_package, rpm_package
from deploy.bundle import oci_image, wheelhouse, wheels
from deploy.bundle.downloads import zookeeper_jars
from deploy.bundle.downloads.locks import read_lock
from deploy.bundle.__main__ import fix_environment
from deploy.bundle.archives import members_in, write_gz
from deploy.bundle.targets import PROCESSORS, Target
from tests.bundle.made_wheels import made_wheel

out, work, order = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(",")
fix_environment(1700000000)
out.mkdir()
processor = PROCESSORS["x86_64"]
made = [made_wheel(work / "wheels", each, "1", module=f"SOME = {{'{each}', 'b', 'c'}}\\n")
        for each in order]
found = {each.name: each for each in map(wheels.read_wheel, made)}
found = {name: found[name] for name in sorted(found)}
tree = work / "tree"
for each in made:
    agent.unpack(each, tree / "lib")
python = work / "interpreter/bin/python3"
python.parent.mkdir(parents=True)
python.symlink_to(sys.executable)
agent.compile_modules(tree, work / "interpreter")
write_gz(out / "agent.tar.gz", members_in(tree, "agent"), 1700000000)
content = work / "content"
host_package.assemble(content, tree, Path.cwd(), "1", 1700000000)
for package, name in ((debian_package, "agent.deb"), (rpm_package, "agent.rpm")):
    package.build(out / name, content, processor, version="1", time=1700000000)
image = oci_image.add_platform(work / "image", tree, processor, {}, 1700000000)
oci_image.write(out / "agent.oci.tar", work / "image", [image], "1", 1700000000)
collection.write(out / "collection.tar.gz", Path.cwd(), "1", 1700000000)
jars = read_lock(zookeeper_jars.LOCK.read_text(), zookeeper_jars.Jar)
zookeeper_jars.write(out / "jars.tar", jars, 1700000000)
wheelhouse.write(out / "house.tar", found, found["penstock"], Target(processor, "3.11"), 1700000000)
"""


def make(directory: Path, order: str, umask: int, **environment: str) -> Path:
    directory.mkdir()
    subprocess.run(
        [sys.executable, "-c", _MAKE, str(directory / "out"), str(directory / "work"), order],
        cwd=_REPOSITORY,
        check=True,
        umask=umask,
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY), **environment},
    )
    return directory / "out"


@pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="apt install rpm")
@pytest.mark.slow
def test_a_small_release_is_the_same_wherever_and_by_whomever(tmp_path: Path) -> None:
    one = make(tmp_path / "one", "penstock,b,a", 0o022, PYTHONHASHSEED="1", TZ="UTC")
    other = make(
        *(tmp_path / "a longer name", "a,penstock,b", 0o077),
        PYTHONHASHSEED="2",
        TZ="Asia/Kathmandu",
        LC_ALL="C",
    )
    assert sorted(path.name for path in one.iterdir()) == [
        *("agent.deb", "agent.oci.tar", "agent.rpm", "agent.tar.gz", "collection.tar.gz"),
        *("house.tar", "jars.tar"),
    ]
    assert differences(one, other) == []
    # What it would say if anything were not.
    (other / "agent.rpm").write_bytes(b"another")
    tree = tmp_path / "one/work/tree/lib"
    write_gz(other / "agent.tar.gz", members_in(tree, "agent"), 1700000000)
    assert differences(one, other) == [
        *("agent.rpm: differs", "agent.tar.gz: differs, first in agent/lib"),
    ]


def test_the_options_are_told_by_the_files(tmp_path: Path) -> None:
    for name in ("py311-linux-x86_64", "py313-linux-x86_64", "py311-linux-aarch64"):
        (tmp_path / f"penstock-wheelhouse-0.1.0+g0123456789-{name}.tar").touch()
    (tmp_path / "penstock-agent_0.1.0+g0123456789_amd64.deb").touch()
    options = ["--python=3.11", "--python=3.13", "--processor=aarch64", "--processor=x86_64"]
    assert made_with(tmp_path) == options
    (tmp_path / "penstock-wheelhouse-0.1.0+g0123456789-spark.tar").touch()
    assert made_with(tmp_path) == [*options, "--spark"]
    next(tmp_path.glob("*.deb")).unlink()
    assert made_with(tmp_path) == [*options, "--spark", "--for-ansible"]
