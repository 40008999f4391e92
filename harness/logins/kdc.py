"""A Kerberos realm for tests: MIT's KDC on a free port of loopback, and keytabs.

All its files are in the caller's directory, and it uses none of the system's. Clients need
`environment` (MIT's libraries) or `java_options` (a JVM).
"""

import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.processes.server_process import RunningServer, ServerProcess, free_ports

REALM: Final = "PENSTOCK.TEST"
_PLACES: Final = ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_WITHIN: Final = 60
_CLIENTS: Final = """\
[libdefaults]
  default_realm = {realm}
  # Hosts have the names in their addresses: no name server is asked.
  dns_canonicalize_hostname = false
  dns_lookup_kdc = false
  dns_lookup_realm = false
  rdns = false
  udp_preference_limit = 1
  default_rcache_name = none:
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""
_SERVER: Final = """\
[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
    default_principal_flags = +preauth
  }}
[logging]
  kdc = STDERR
  default = STDERR
"""


def why_no_kdc() -> str:
    """Returns what is missing to run a KDC, or "" if nothing is."""
    names = [name for name in _PROGRAMS if _path_of(name) is None]
    return f"{', '.join(names)}: apt install krb5-kdc krb5-admin-server krb5-user" if names else ""


class Kdc(RunningServer):
    """A KDC: `with Kdc(directory) as kdc: kdc.keytab("agent")`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        (self._port,) = free_ports(1)
        self.krb5_conf = directory / "krb5.conf"
        self.krb5_conf.write_text(_CLIENTS.format(realm=REALM, port=self._port))
        server = directory / "kdc.conf"
        server.write_text(_SERVER.format(realm=REALM, port=self._port, directory=directory))
        self.environment: Mapping[str, str] = {"KRB5_CONFIG": str(self.krb5_conf)}
        self.java_options: Sequence[str] = (
            f"-Djava.security.krb5.conf={self.krb5_conf}",
            "-Dsun.security.krb5.rcache=none",
        )
        self._own = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
            "KRB5_KDC_PROFILE": str(server),
            **self.environment,
        }
        command = [str(_path_of("krb5kdc")), "-n", "-P", str(directory / "pid")]
        self.process = ServerProcess(command, output=directory / "kdc.log", environment=self._own)

    def spawn(self) -> None:
        """Starts the KDC; creates the realm before the first start."""
        if not (self.directory / "stash").exists():
            self._run("kdb5_util", "-r", REALM, "create", "-s", "-W", "-P", "a master's password")
        super().spawn()

    def ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def keytab(self, name: str, *, life: str = "1 day") -> Path:
        """Returns the keytab of a principal, which is created if necessary; `life` is that of its
        tickets."""
        path = self._keytab(name)
        if not path.exists():
            self._run("kadmin.local", "addprinc", "-randkey", "-maxlife", life, name)
            self._run("kadmin.local", "ktadd", "-k", str(path), name)
        return path

    def change_key(self, name: str) -> None:
        """Changes the principal's key; the keytab then has only the new one."""
        self._keytab(name).unlink()
        self._run("kadmin.local", "ktadd", "-k", str(self._keytab(name)), name)

    def kinit(self, name: str, cache: Path, *, life: str = "1d") -> None:
        """Puts a ticket into the cache, as a login by the user would."""
        key = ("-k", "-t", str(self.keytab(name)))
        self._run("kinit", "-c", str(cache), "-l", life, *key, name)

    def remove(self, name: str) -> None:
        """Removes the principal; its keytab stays."""
        self._run("kadmin.local", "delprinc", "-force", name)

    def asked(self, name: str) -> int:
        """Counts the ticket-granting tickets that the principal was issued."""
        issue_text = f"{name}@{REALM} for krbtgt/{REALM}@{REALM}"
        return sum("ISSUE" in line and issue_text in line for line in self.log().splitlines())

    def _keytab(self, name: str) -> Path:
        return self.directory / f"{name.replace('/', '-')}.keytab"

    def _run(self, program: str, *arguments: str) -> str:
        run = subprocess.run(
            [str(_path_of(program)), *arguments],
            capture_output=True, text=True, timeout=_WITHIN, check=False, env=self._own,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert run.returncode == 0, f"{program} {arguments}: {run.stdout}{run.stderr}"
        return run.stdout


def _path_of(program: str) -> str | None:
    return shutil.which(program, path=":".join(_PLACES))
