"""What comes when somebody presses Tab: in real shells, and as they ask for it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from penstock.cli.completion import SHELLS, VARIABLE, words
from penstock.cli.failures import Failed
from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import REPOSITORY, At, penstock
from tests.penstock.terminals import opened, read_until

CLIENTS_PATIENCE = 25.0  # less than a client has for a broker that does not answer


class Tab:
    """What `penstock` offers at the end of a line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def offers(self, line: str) -> list[str]:
        """As bash asks for it: each with its kind."""
        self._monkeypatch.setenv(VARIABLE, "bash_complete")
        self._monkeypatch.setenv("COMP_WORDS", line)
        self._monkeypatch.setenv("COMP_CWORD", line.rpartition(" ")[2])
        ended = penstock()
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout.split()

    def comes_to_offer(self, line: str, *wanted: str) -> None:
        """Sooner or later: who asks gives up after a moment, which is short on a busy machine."""
        wait_until(lambda: self.offers(line) == [*wanted], what=f"{wanted}: {line}")


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch) -> Tab:
    return Tab(monkeypatch)


def test_commands_options_and_choices(tab: Tab) -> None:
    for line, offered in (
        ("to", ["plain,topics"]),
        ("re", ["plain,report", "plain,registry"]),
        ("topics de", ["plain,describe", "plain,delete"]),
        ("consume --to", ["plain,--to-end"]),
        ("produce t --codec=z", ["plain,zstd"]),
        ("broker --config bro", ["file,bro"]),
        ("consume t --avro-file vis", ["file,vis"]),
        ("consume t --codec=s", ["plain,snappy"]),
    ):
        assert tab.offers(f"penstock {line}") == offered


def test_topics_are_those_of_the_cluster_that_the_line_or_the_environment_names(
    tab: Tab, at: At, new_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.output("topics", "create", new_topic)
    found, where = f"plain,{new_topic}", f"-b {at.bootstrap}"
    for command in ("topics describe", "topics delete other", "produce", "consume --from end"):
        tab.comes_to_offer(f"penstock {command} {where} {new_topic[:-1]}", found)
    line = f"penstock topics delete {where} "
    wait_until(lambda: found in tab.offers(line), what=f"{found}: {line}")
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", at.bootstrap)
    tab.comes_to_offer(f"penstock report {new_topic[:-1]}", found)


def test_subjects_are_those_of_the_registry(
    tab: Tab, schemas: AtRegistry, new_topic: str, tmp_path: Path
) -> None:
    schemas.registered(tmp_path, new_topic)
    found, at = f"plain,{new_topic}", f"-r {schemas.url} {new_topic[:-1]}"
    for command in ("show", "delete", "config --set full"):
        tab.comes_to_offer(f"penstock schemas {command} {at}", found)
    tab.comes_to_offer(f"penstock schemas diff {at}", found, f"file,{new_topic[:-1]}")


def test_nobody_who_answers_is_no_error(tab: Tab) -> None:
    (port,) = free_ports(1)
    assert tab.offers(f"penstock consume -b 127.0.0.1:{port} ") == []
    assert tab.offers(f"penstock schemas show -r http://127.0.0.1:{port} ") == []
    assert tab.offers("penstock consume -b nonsense:x ") == []
    with socket.create_server(("127.0.0.1", 0)) as silent:  # which is not waited for
        began = time.monotonic()
        assert tab.offers(f"penstock consume -b 127.0.0.1:{silent.getsockname()[1]} ") == []
        assert time.monotonic() - began < CLIENTS_PATIENCE


@given(st.lists(st.text()), st.text(max_size=2))
def test_what_comes_from_a_cluster_is_a_plain_word(names: list[str], incomplete: str) -> None:
    for word in words(lambda: names, incomplete):
        assert word in names
        assert word.startswith(incomplete)
        assert word.isascii()
        assert not set(word) - set("._-") - {each for each in word if each.isalnum()}


def test_names_that_a_shell_would_take_for_more_are_left_out() -> None:
    names = ["a b", "a", "$(id)", "*", "a;b", "a\nb", "-rf", "a'", "_audit", "ä", "b.c-d_e"]
    assert words(lambda: names, "") == ["a", "b.c-d_e"]
    assert words(lambda: names, "_") == ["_audit"]

    def fails() -> list[str]:
        raise Failed("no broker")

    assert words(fails, "") == []


@pytest.mark.not_quick("starts a process")
def test_a_command_that_lacks_its_extra_is_completed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "kazoo.py").write_text("raise ModuleNotFoundError(name='kazoo')\n")
    asked = {VARIABLE: "bash_complete", "COMP_WORDS": "penstock broker --", "COMP_CWORD": "--"}
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{REPOSITORY}", **asked}
    run = [sys.executable, "-m", "penstock"]
    ended = subprocess.run(run, env=environment, cwd=tmp_path, capture_output=True, check=False)
    offered = b"plain,--config\nplain,--set\nplain,--log-format\nplain,--help\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, offered, b"")


def test_a_shell_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "tcsh_complete")
    ended = penstock()
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


# How each is started without anybody's settings, and told about completion.
ZSH = 'autoload -U compinit; compinit -D -u; eval "$(penstock completion zsh)"'
INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(penstock completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], ZSH),
    "fish": (["fish", "--no-config", "-i"], "penstock completion fish | source"),
}


@pytest.mark.parametrize("shell", [each for each in SHELLS if shutil.which(each)])
def test_a_shell_completes_what_is_typed(shell: str, tmp_path: Path) -> None:
    """On a terminal, with a key that is pressed."""
    command = tmp_path / "penstock"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    command.chmod(0o755)
    arguments, setup = INTERACTIVE[shell]
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(tmp_path),
        "TERM": "dumb" if shell == "bash" else "xterm",
        "PS1": "",
    }
    with (
        opened(columns=150) as (main, terminal),
        subprocess.Popen(
            ["setsid", "--ctty", *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=tmp_path,
            env=environment,
        ) as process,
    ):
        os.close(terminal)
        try:
            os.write(main, f"{setup}; echo set''up\n".encode())
            read_until(main, b"setup")
            # A colon ends a word in bash, and is part of an address.
            os.write(main, b"penstock topics list -b 127.0.0.1:9092 --js\t")
            read_until(main, b"--json")
        finally:
            process.kill()
