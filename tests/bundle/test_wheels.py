"""Which wheels a target needs, and what is compiled into Penstock's own."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.bundle import elf, wheels
from deploy.bundle.targets import GLIBC, PROCESSORS, Target
from deploy.bundle.wheels import Requirements, Wheel, closure, pins, with_modules
from tests.bundle.made_wheels import made_wheel

ROOT = Path(__file__).resolve().parents[2]
INTEL = PROCESSORS["x86_64"]
ARM = PROCESSORS["aarch64"]
OLDER = Target(INTEL, "3.11")
NEWER = Target(ARM, "3.13")


def some() -> dict[str, Wheel]:
    def wheel(name: str, *requires: str) -> Wheel:
        return Wheel(Path(f"{name}-1-py3-none-any.whl"), name, "1", requires, "")

    found = [
        wheel("penstock", "one", 'two; extra == "agent"', 'penstock[agent]; extra == "all"'),
        wheel("one", 'older; python_version < "3.12"', 'odd; sys_platform == "win32"'),
        wheel("two", 'intel; platform_machine == "x86_64"', "one[more]"),
        *map(wheel, ("older", "intel")),
    ]
    return {each.name: each for each in found}


@pytest.mark.parametrize(
    ("roots", "target", "expected"),
    [
        (["penstock"], OLDER, {"penstock", "one", "older"}),
        (["penstock"], NEWER, {"penstock", "one"}),
        (["penstock[agent]"], OLDER, {"penstock", "one", "older", "two", "intel"}),
        (["penstock[all]"], NEWER, {"penstock", "one", "two"}),
    ],
)
def test_conditions_are_asked_of_the_target(
    roots: list[str], target: Target, expected: set[str]
) -> None:
    assert closure(some(), roots, target) == (expected, set())


def test_what_is_missing_is_named() -> None:
    known = some()
    del known["intel"]
    assert closure(known, ["penstock[agent]"], OLDER)[1] == {"intel"}


def test_wheels_are_asked_for_until_none_is_missing(tmp_path: Path) -> None:
    own = made_wheel(tmp_path / "own", "penstock", "0.1.0", "Some_Thing>=1", "big")
    shelf = {"some-thing": ("some_thing", ("deeper",)), "deeper": ("deeper", ())}
    asked = []

    def fetch(missing: Mapping[str, str]) -> None:
        asked.append(dict(missing))
        for name, version in missing.items():
            made, needs = shelf[name]
            made_wheel(tmp_path / "into", made, version, *needs)

    pinned = pins("# a line\nsome.thing==1.5\ndeeper==2\nbig==9\n")
    wanted = Requirements(("penstock",), OLDER, frozenset({"big"}))
    found = wheels.fetched(wanted, own, pinned, tmp_path / "into", fetch)
    assert list(found) == ["deeper", "penstock", "some-thing"]
    assert asked == [{"some-thing": "1.5"}, {"deeper": "2"}]
    with pytest.raises(SystemExit, match="pins no version of some-thing"):
        wheels.fetched(wanted, own, pins("deeper==2"), tmp_path / "into", fetch)


def test_every_wheel_that_fits_is_old_enough() -> None:
    for target in (OLDER, NEWER):
        platforms = target.platforms()
        assert platforms[0] == f"manylinux_2_28_{target.processor.name}"
        minors = [int(each.split("_")[2]) for each in platforms if each.startswith("manylinux_")]
        assert max(minors) == GLIBC[1]
        assert all(each.endswith(f"_{target.processor.name}") for each in platforms)


@pytest.mark.not_quick("builds a wheel")
def test_modules_in_c_lie_in_a_wheel_for_every_python(tmp_path: Path) -> None:
    """They are loaded from there, and need no glibc that is too young."""
    modules = wheels.compiled(ROOT, tmp_path)
    assert all(elf.needs(each).glibc() <= GLIBC for each in modules.values())
    pure = made_wheel(tmp_path / "pure", "penstock", "0.1.0")
    made = [with_modules(pure, modules, INTEL, tmp_path / each) for each in ("one", "two")]
    assert made[0].name == "penstock-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
    assert made[0].read_bytes() == made[1].read_bytes()
    with zipfile.ZipFile(made[0]) as archive:
        archive.extractall(tmp_path / "there")
        about = archive.read("penstock-0.1.0.dist-info/WHEEL").decode()
        record = archive.read("penstock-0.1.0.dist-info/RECORD").decode()
    assert "Tag: cp311-abi3-manylinux_2_28_x86_64" in about
    assert "py3-none-any" not in about
    assert {Path(each).parts[2] for each in modules} == {"wire", "columns", "broker", "agent"}
    for there in map(Path, modules):
        assert f"{there},sha256=" in record
        name = there.name.partition(".")[0]
        load = f"import {name}; print({name}.__name__)"
        folder = tmp_path / "there" / there.parent
        ran = subprocess.check_output([sys.executable, "-c", load], text=True, cwd=folder)
        assert ran == f"{name}\n"


def test_what_a_program_asks_of_the_system() -> None:
    found = elf.needs(Path(sys.executable).resolve())
    assert found.machine in {each.elf_machine for each in PROCESSORS.values()}
    assert "libc.so.6" in found.libraries
    assert (2, 2) <= found.glibc() < (3,)


@pytest.mark.parametrize("length", [4, 20, 64, 1000])
def test_a_program_that_was_cut_off_is_refused(tmp_path: Path, length: int) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(Path(sys.executable).resolve().read_bytes()[:length])
    with pytest.raises(ValueError, match="damaged"):
        elf.needs(cut)
