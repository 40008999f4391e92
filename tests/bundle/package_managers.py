"""A key that signs a release's repositories, and dnf with settings of its own, which reads them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What the agent's rpm requires, and a Debian has without rpm's knowledge.
_BASE = """\
Name: base
Version: 1
Release: 1
Summary: a Debian
License: none
BuildArch: noarch
Provides: /bin/sh /usr/bin/getent /usr/sbin/groupadd /usr/sbin/useradd coreutils
%description
%files
"""
_FORCE = "--forcearch=x86_64"


@contextmanager
def signing_key() -> Iterator[str]:
    """A key in a keyring of its own, whose path is short enough for gpg's agent."""
    with tempfile.TemporaryDirectory(prefix="gpg-") as home:
        former = os.environ.get("GNUPGHOME")
        os.environ["GNUPGHOME"] = home
        command = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key"]
        try:
            subprocess.run([*command, "packages@localhost", "rsa2048", "sign", "never"], check=True)
            yield "packages@localhost"
        finally:
            _end_agent(Path(home))
            del os.environ["GNUPGHOME"]
            os.environ |= {} if former is None else {"GNUPGHOME": former}


def dnf(
    state: Path, out: Path, *command: str, root: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs dnf with the repository in `out`, whose key must have signed index and packages, on the
    system in `root`: by default an empty one."""
    settings = {
        "cachedir": state / "cache",
        "persistdir": state / "lib",
        "logdir": state,
        "reposdir": "/dev/null",
        "penstock.gpgkey": f"file://{out}/penstock.asc",
        "penstock.gpgcheck": 1,
        "penstock.repo_gpgcheck": 1,
        "penstock.skip_if_unavailable": 0,
    }
    options = [f"--setopt={name}={value}" for name, value in settings.items()]
    options += [f"--installroot={root}"] if root else [f"--installroot={state}/root", _FORCE]
    options += ["--releasever=9"]
    at = f"--repofrompath=penstock,file://{out}/yum"
    line = ["dnf", "--quiet", "--assumeyes", at, "--repo=penstock", *options, *command]
    environment = {**os.environ, "HOME": str(state)}
    ended = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    for ring in state.glob("cache/*/pubring"):  # dnf leaves an agent of its own
        _end_agent(ring)
    return ended


def _end_agent(home: Path) -> None:
    subprocess.run(["gpgconf", f"--homedir={home}", "--kill", "gpg-agent"], check=True)


def make_base(root: Path, state: Path) -> None:
    """Tells rpm's database in `root` what a Debian has. `state` is that of `dnf`: Debian's rpm has
    its database below the home directory."""
    state.mkdir()
    (state / "base.spec").write_text(_BASE)
    command = ["rpmbuild", "-bb", "--quiet", f"--define=_topdir {state}", str(state / "base.spec")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (rpm,) = state.glob("RPMS/*/*.rpm")
    install = ["rpm", "--root", str(root), "--force-debian", "--nodeps", "--install", str(rpm)]
    subprocess.run(install, check=True, env={**os.environ, "HOME": str(state)})
