"""`--follow`: what is asked for is what the agent follows, and nothing of ours."""

from pathlib import Path

import pytest

from agent.files.patterns import Exclusion
from penstock.directory.errors import WrongFollow
from penstock.directory.places import Places, Ports
from penstock.directory.preparation import FOLLOW_FILE, Follow, follow_text, parse_follow, prepare
from penstock.services.agent_configuration import load_inputs

HERE = Path("/home/ann")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/var/log/*.log", Follow("/var/log/*.log", "logs")),
        ("shop=/srv/shop/*.json", Follow("/srv/shop/*.json", "shop")),
        ("app.log", Follow("/home/ann/app.log", "logs")),
        ("web.access-1=../x/**/*.log", Follow("/home/ann/../x/**/*.log", "web.access-1")),
        ("./a=b.log", Follow("/home/ann/a=b.log", "logs")),
        ("a=b=c.log", Follow("/home/ann/b=c.log", "a")),
        ("./my logs=x", Follow("/home/ann/my logs=x", "logs")),
        ("logs of 2026/my logs=x", Follow("/home/ann/logs of 2026/my logs=x", "logs")),
        ("/no/such/folder/", Follow("/no/such/folder/*", "logs")),
        ("//var/log/x.log", Follow("/var/log/x.log", "logs")),
    ],
)
def test_what_is_meant(text: str, meant: Follow) -> None:
    assert parse_follow(text, HERE) == meant


def test_a_folder_means_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert parse_follow("logs", tmp_path).pattern == f"{tmp_path}/logs/*"
    assert parse_follow(str(tmp_path), HERE).pattern == f"{tmp_path}/*"


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(tmp_path: Path) -> None:
    here = tmp_path / "app[1]*"
    (here / "logs").mkdir(parents=True)
    (tmp_path / "app1").mkdir()
    for text, files in (("*.log", here), ("logs", here / "logs")):
        pattern = parse_follow(text, here)
        (tmp_path / "app1" / "x.log").touch()
        assert not pattern.has_files()
        (files / "x.log").touch()
        assert pattern.has_files()


def test_whether_there_is_a_file_yet(tmp_path: Path) -> None:
    pattern = parse_follow("a*.log", tmp_path)
    assert not pattern.has_files()
    (tmp_path / "a1.log").touch()
    assert pattern.has_files()
    assert parse_follow("/no/such/**/file", HERE).has_files(), "nobody looked"
    assert not parse_follow(f"/{tmp_path.parent}/*/{'x' * 300}", HERE).has_files()


def test_home_is_known_even_in_quotes() -> None:
    assert parse_follow("~/x.log", HERE).pattern == str(Path.home() / "x.log")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no file"),
        ("..=x", "'..'"),
        ("my logs=x", "'my logs' is not a topic name.* pass './my logs=x'"),
        ("=x", "'' is not a topic name"),
        ("a=", "names no file"),
        ("_mine=x", "reserved for Penstock"),
        ("logs.dead=x", "reserved for Penstock"),
        (f"{'t' * 246}=x", "too long"),
        ("a\0b", "names no file"),
        ("x" * 5000, "too long"),
        ("~nobody-has-this-name/x", "nobody-has-this-name"),
    ],
)
def test_what_cannot_be_meant(text: str, said: str) -> None:
    with pytest.raises(WrongFollow, match=said):
        parse_follow(text, HERE)


def test_the_agent_takes_it(tmp_path: Path) -> None:
    places = Places(tmp_path / "${HOME}" / "my data")
    places.directory.mkdir(parents=True)
    follows = [Follow("/a/*.log"), Follow("/b/${c}.log", "b"), Follow("/d.log")]
    prepare(places, Ports(), follows)
    logs, b = load_inputs(places.inputs / FOLLOW_FILE)
    assert (logs.topic, logs.paths) == ("logs", ("/a/*.log", "/d.log"))
    assert (b.topic, b.paths) == ("b", ("/b/${c}.log",))
    assert {logs.start, b.start} == {"beginning"}
    for each in (logs, b):
        excluded = Exclusion(each.exclude)
        assert excluded("agent.log", str(places.log("agent")))
        assert not excluded("x.log", str(places.directory.parent / "x.log"))


def test_whatever_it_is_called_our_own_directory_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "app[1]").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "inner").symlink_to(real / "app[1]" / "logs")
    for directory in (tmp_path / "link" / "app[1]", real / "app[1]"):
        places = Places(directory)
        patterns = [f"{tmp_path}/{each}/*.log" for each in ("real/**", "link/*/logs", "inner")]
        prepare(places, Ports(), [Follow(each) for each in patterns])
        (only,) = load_inputs(places.inputs / FOLLOW_FILE)
        excluded = Exclusion(only.exclude)
        for folder in ("real/app[1]/logs", "link/app[1]/logs", "inner"):
            assert excluded("agent.log", f"{tmp_path}/{folder}/agent.log")
        assert not excluded("x.log", f"{real}/app1/logs/x.log")


def test_it_stays_until_something_else_is_asked_for(tmp_path: Path) -> None:
    places = Places(tmp_path)
    own = places.inputs / "shop.yaml"
    prepare(places, Ports(), [Follow("/a.log")])
    own.write_text("inputs: []")
    first = (places.inputs / FOLLOW_FILE).read_text()
    prepare(places, Ports(), [])
    assert (places.inputs / FOLLOW_FILE).read_text() == first
    prepare(places, Ports(), [Follow("/b.log")])
    assert (places.inputs / FOLLOW_FILE).read_text() == follow_text(places, [Follow("/b.log")])
    assert own.read_text() == "inputs: []"
    assert sorted(each.name for each in places.inputs.iterdir()) == [FOLLOW_FILE, "shop.yaml"]
