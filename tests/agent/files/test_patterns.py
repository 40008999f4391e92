"""Names and what is meant by them."""

import pytest

from agent.files.listing import Survey
from agent.files.patterns import split


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("/var/log/app.log", "/var/log/app.log", True),
        ("/var/log/app.log", "/var/log/app.log.1", False),
        ("/var/log/*.log", "/var/log/app.log", True),
        ("/var/log/*.log", "/var/log/.app.log", False),
        ("/var/log/.*.log", "/var/log/.app.log", True),
        ("/var/log/*.log", "/var/log/sub/app.log", False),
        ("/var/log/**/*.log", "/var/log/app.log", True),
        ("/var/log/**/*.log", "/var/log/a/b/c/app.log", True),
        ("/var/log/**/*.log", "/var/log/a/.b/c/app.log", False),
        ("/var/log/**", "/var/log/a/b", True),
        ("/var/log/*/current/app.log", "/var/log/x/current/app.log", True),
        ("/var/log/*/current/app.log", "/var/log/current/app.log", False),
        ("/var/**/b/**/c", "/var/a/b/c", True),
        ("/var/**/b/**/c", "/var/b/x/b/y/c", True),
        ("/var/**/b/**/c", "/var/x/c", False),
        ("/var/log//app?.[lL]og", "/var/log/app1.Log", True),
        ("/*", "/app", True),
        ("/var/log/[[]x].log", "/var/log/[x].log", True),
    ],
)
def test_what_is_meant(pattern: str, path: str, meant: bool) -> None:
    assert Survey([pattern], [], lambda folder: None).means(path) is meant


@pytest.mark.parametrize(
    ("exclude", "path", "left_out"),
    [
        ("*.gz", "/l/a/x.gz", True),
        ("*.swp", "/l/.x.swp", True),
        ("old", "/l/old/x", True),
        ("/l/old/*", "/l/old/x", True),
        ("/l/*", "/l/old/x", True),
        ("/l/**/x", "/l/old/very/x", True),
        ("/l/**", "/l/old/x", True),
        ("old/x", "/l/old/x", True),
        ("old/?", "/l/old/x", True),
        ("old/[!x]", "/l/old/x", False),
        ("a.b", "/l/aXb", False),
        ("q/a.b", "/l/q/aXb", False),
    ],
)
def test_what_is_left_out(exclude: str, path: str, left_out: bool) -> None:
    assert Survey(["/l/**"], [exclude], lambda folder: None).means(path) is not left_out


def test_a_pattern_is_literal_up_to_a_folder() -> None:
    assert split("/var/log/app.log") == ("/var/log", ("app.log",))
    assert split("/var/*/app.log") == ("/var", ("*", "app.log"))
    assert split("/var/log/**") == ("/var/log", ("**", "*"))
