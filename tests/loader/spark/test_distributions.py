"""Which distributions are packed, found in directories that look like site-packages."""

from collections.abc import Callable
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest

from loader.errors import NotPackable
from loader.spark.packing import required_distributions

Installed = dict[str, list[str]]


def lookup_in(directory: Path, installed: Installed) -> Callable[[str], Distribution]:
    for name, requires in installed.items():
        metadata = directory / f"{name}-1.0.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        metadata.write_text("\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires)]))

    def look_up(name: str) -> Distribution:
        found = next(iter(Distribution.discover(name=name, path=[str(directory)])), None)
        if found is None:
            raise PackageNotFoundError(name)
        return found

    return look_up


def required(directory: Path, installed: Installed) -> list[str]:
    return [each.name for each in required_distributions(lookup_in(directory, installed))]


def test_all_that_ours_requires_directly_or_not(tmp_path: Path) -> None:
    installed = {"penstock": ["b>=1"], "a": [], "b": ["a"], "unrelated": []}
    assert required(tmp_path, installed) == ["a", "b"]


def test_of_our_extras_the_loader_s_only(tmp_path: Path) -> None:
    requires = ['a; extra == "loader"', 'b; extra == "broker"']
    assert required(tmp_path, {"penstock": requires, "a": [], "b": []}) == ["a"]


def test_extras_that_a_requirement_asks_for(tmp_path: Path) -> None:
    installed = {
        "penstock": ["a[fast]"],
        "a": ["b", 'c; extra == "fast"', 'd; extra == "slow"'],
        "b": [],
        "c": [],
        "d": [],
    }
    assert required(tmp_path, installed) == ["a", "b", "c"]


def test_an_extra_asked_for_later_is_followed_too(tmp_path: Path) -> None:
    installed = {"penstock": ["a", "z"], "z": ["a[fast]"], "a": ['b; extra == "fast"'], "b": []}
    assert required(tmp_path, installed) == ["a", "b", "z"]


def test_what_another_machine_would_need_is_not_looked_for(tmp_path: Path) -> None:
    requires = ['a; sys_platform == "win32"', 'b; python_version < "3"', "c"]
    assert required(tmp_path, {"penstock": requires, "c": []}) == ["c"]


def test_spark_brings_its_own(tmp_path: Path) -> None:
    installed = {"penstock": ["PySpark>=4; extra == 'loader'", "a"], "a": ["py4j"]}
    assert required(tmp_path, installed) == ["a"]


def test_two_that_require_each_other(tmp_path: Path) -> None:
    assert required(tmp_path, {"penstock": ["a"], "a": ["b"], "b": ["a"]}) == ["a", "b"]


def test_a_missing_one_is_named_with_who_needs_it(tmp_path: Path) -> None:
    with pytest.raises(NotPackable, match=r"^a needs lost, which is not installed for .*python"):
        required(tmp_path, {"penstock": ["a"], "a": ["lost"]})
    with pytest.raises(NotPackable, match=r"^the loader needs penstock, which is not installed"):
        required(tmp_path / "empty", {})
