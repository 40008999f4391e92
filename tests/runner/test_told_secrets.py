"""A secret that is told fails a run: each way of telling one, tried in a run of its own."""

import shutil
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

from joserfc import jwt
from joserfc.jwk import OctKey

from ground.logins.password_file import SlowHash
from ground.logins.scram import FEWEST_ITERATIONS, ScramCredential, ScramMechanism
from harness.logins.certificates import Authority
from harness.logins.made_secrets import is_told, made_secret, told
from harness.penstock.secured_broker import USERS
from tests.runner.inner_runs import run_by_our_rules as run
from tests.runner.inner_runs import runs_tests

# What a program of ours might do wrong, each in a test that passes.
LEAKS = """
import subprocess
import sys
from pathlib import Path

from harness.logins.made_secrets import made_secret
from harness.processes.server_process import ServerProcess
from harness.processes.waiting import wait_until

SECRET = made_secret("a password")


def test_a_log(tmp_path):
    (tmp_path / "password").write_text(SECRET)  # where it belongs
    says = "print('one'); print(open('password').read())"
    output = tmp_path / "output"
    command = [sys.executable, "-c", says]
    with ServerProcess(command, output=output, directory=tmp_path) as server:
        server.spawn()
        server.wait(within=200)


def test_plans(tmp_path):
    (tmp_path / "spark-events").mkdir()
    (tmp_path / "spark-events" / "local-1").write_text("{}\\n{}\\n" + SECRET)


def test_what_is_said():
    print("connecting as alice:" + SECRET)


def test_a_command():
    subprocess.run(["true", "--password", SECRET], check=True)


CHILD = '''
import subprocess, sys
secret = sys.stdin.readline()
with subprocess.Popen(["cat", "-", secret], stdin=subprocess.PIPE) as child:
    print(child.pid, flush=True)
    sys.stdin.read()
'''

import pytest


@pytest.fixture
def child():
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe, text=True) as it:
        yield it
        it.stdin.close()


def test_a_command_of_a_child(child):
    child.stdin.write(SECRET + "\\n")
    child.stdin.flush()
    command = Path(f"/proc/{child.stdout.readline().strip()}/cmdline")
    wait_until(lambda: b"cat" in command.read_bytes(), within=60, what="it runs")
"""


@runs_tests
def test_every_way_of_telling_is_found(tmp_path: Path) -> None:
    done = run(tmp_path, LEAKS)
    shutil.rmtree(tmp_path)  # before this run looks for what it has told itself
    assert done.returncode == 1
    assert "5 passed, 1 error" in done.stdout
    _, _, found = done.stdout.partition("secrets were told:")
    for where in (
        "/output:2: a made secret",
        "/spark-events/local-1:3: a made secret",
        "::test_what_is_said, Captured stdout call:1: a made secret",
        "the command of test_0.py::test_a_command (call): true --password",
        "a process during test_0.py::test_a_command_of_a_child (",
    ):
        assert where in found, done.stdout


def test_secrets_are_known_in_every_form(tmp_path: Path) -> None:
    secret = made_secret("x")
    for before in ("", "u", "us", "user"):
        said = f"{before}:{secret}:more".encode()
        for each in (said, b64encode(said), urlsafe_b64encode(said), said.hex().encode()):
            assert told(b"first line\nAuthorization: " + each + b"\n") == ["2: a made secret"]
            assert is_told(each.decode())
    key = Authority(tmp_path).sign("somebody").key.read_bytes()
    assert told(key) == ["1: a private key"]
    assert not told(Path(tmp_path / "ca.pem").read_bytes())
    token = jwt.encode({"alg": "HS256"}, {"sub": "alice"}, OctKey.generate_key(256))
    assert told(f"Bearer {token}".encode()) == ["1: a signed token"]
    kept = ScramCredential.of_password(ScramMechanism.SHA_512, "x", b"salt", FEWEST_ITERATIONS)
    assert told(kept.text().encode()) == ["1: a password hash"] * 2
    assert told(str(SlowHash.of("x")).encode()) == ["1: a password hash"]
    assert not told(b"wrong password, user alice; stored_key=... is what is kept of it")


def test_the_users_of_a_secured_broker_have_made_secrets() -> None:
    assert [name for name, password in USERS.items() if not is_told(password)] == []
