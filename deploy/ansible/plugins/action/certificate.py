"""Checks a program's certificate on the controller, and has it signed where necessary.

The check reads the certificate's file, so that a thousand hosts with valid certificates start no
process. Ansible's forks sign one at a time, under a file lock.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

_HOST = re.compile(r"(?=.{1,253}$)(?!.*\.[0-9]+$)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DAY = 86_400
_TIMEOUT = 120
_MOST_BYTES = 1 << 20


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        arguments = self._task.args
        name = str(arguments["name"])
        if not _NAME.fullmatch(name):
            raise AnsibleActionFail(f"invalid certificate name: {name!r}")
        directory = Path(arguments["directory"])
        hosts = [
            name for name in dict.fromkeys(map(str, arguments.get("hosts") or [])) if is_host(name)
        ]
        file = directory / f"{name}.pem"
        reason = "" if arguments.get("source") == "files" else self._why(file, hosts, arguments)
        result = {"changed": bool(reason), "file": str(file), "why": reason}
        result["exists"] = file.exists()
        if arguments.get("source") == "files":
            if not file.exists() or not (directory / "ca.pem").exists():
                raise AnsibleActionFail(
                    f"{directory} lacks {name}.pem (certificate and key) or ca.pem"
                )
        elif reason and self._task.check_mode:
            if arguments.get("try_command"):
                self._try(arguments)
                self._check_key(f"{name}: {reason}", directory, arguments)
        elif reason:
            with locked(directory):
                # Another fork may have signed it in the meantime; `renew` signs it again anyway.
                if self._why(file, hosts, arguments):
                    self._sign(name, file, hosts, arguments)
            result["exists"] = True
        return result

    @staticmethod
    def _why(file, hosts, arguments):
        """The reason for signing the certificate; empty if it is valid."""
        if not file.exists():
            return "it does not exist"
        if arguments.get("renew") in {True, "true", "True", "yes"}:
            return "renewal was requested"
        try:
            certificate = ssl._ssl._test_decode_cert(str(file))
        except (ssl.SSLError, OSError, ValueError):
            return "it cannot be read"
        seconds_left = ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()
        minimum_days = int(arguments.get("renew_days") or 30)
        if seconds_left < minimum_days * _DAY:
            return f"it expires in less than {minimum_days} days"
        names = {normalized(value) for _kind, value in certificate.get("subjectAltName", ())}
        missing_hosts = [name for name in hosts if normalized(name) not in names]
        return f"it lacks {', '.join(missing_hosts)}" if missing_hosts else ""

    def _try(self, arguments):
        """Fails unless the controller has the command that signs or issues certificates."""
        if arguments.get("source") == "command":
            command = [str(word) for word in arguments.get("issue") or [""]]
            if shutil.which(command[0]) is None:
                raise AnsibleActionFail(
                    f"{command[0] or 'no command'} is not on the controller: set "
                    "penstock_certificates_issue_command to the command that issues certificates"
                )
            return
        penstock = [str(word) for word in arguments.get("penstock") or ["penstock"]]
        self._command([*penstock, "certificates", "sign", "--help"])

    @staticmethod
    def _check_key(purpose, directory, arguments):
        is_own = arguments.get("source") != "command"
        if is_own and (directory / "ca.pem").exists() and not (directory / "ca.key").exists():
            raise AnsibleActionFail(
                f"{directory}/ca.key is missing, and is needed to sign {purpose}. Restore it from "
                "a backup (controller.tar)"
            )

    def _sign(self, name, file, hosts, arguments):
        days = str(arguments.get("days") or 365)
        if arguments.get("source") == "command":
            self._issue(name, file, hosts, days, arguments)
            return
        directory = file.parent
        penstock = [str(word) for word in arguments.get("penstock") or ["penstock"]]
        if not (directory / "ca.pem").exists():
            title = str(arguments.get("authority_name") or "Penstock")
            self._command([*penstock, "certificates", "make", str(directory), "--name", title])
        options = [word for host in hosts for word in ("--host", host)]
        self._command(
            [
                *(*penstock, "certificates", "sign", name, *options, "--days", days),
                *("--force", "--authority", str(directory)),
            ]
        )

    def _issue(self, name, file, hosts, days, arguments):
        command = [str(word) for word in arguments.get("issue") or []]
        if not command:
            raise AnsibleActionFail("penstock_certificates_issue_command is not set")
        environment = {
            "PENSTOCK_NAME": name,
            "PENSTOCK_HOSTS": ",".join(hosts),
            "PENSTOCK_DAYS": days,
        }
        file.parent.mkdir(mode=0o700, exist_ok=True)
        output = self._command(command, environment)
        if b"PRIVATE KEY-----" not in output or b"BEGIN CERTIFICATE-----" not in output:
            raise AnsibleActionFail(f"{command[0]} did not print a key and a certificate (PEM)")
        descriptor, new_path = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(output)
            os.replace(new_path, file)
        except OSError:
            os.unlink(new_path)
            raise

    @staticmethod
    def _command(command, environment=None):
        try:
            result = subprocess.run(
                command,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except FileNotFoundError:
            raise AnsibleActionFail(
                f"{command[0]} is not on the controller's PATH. Install it from the release: "
                "sh release/penstock-install-VERSION.sh ~/penstock certificates. Then add "
                "~/penstock/bin to PATH, or set penstock_certificates_penstock to the command's "
                "path"
            ) from None
        except subprocess.TimeoutExpired:
            raise AnsibleActionFail(f"{command[0]} took more than {_TIMEOUT} s") from None
        if result.returncode or len(result.stdout) > _MOST_BYTES:
            output = result.stderr.decode(errors="replace").strip()[-500:]
            raise AnsibleActionFail(f"{' '.join(command[:3])} failed: {output}")
        return result.stdout


@contextmanager
def locked(directory):
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_host(text):
    """Whether a certificate can name this host: a valid DNS name or address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_HOST.fullmatch(text))
    return True


def normalized(text):
    """Returns the form in which a host name or address is compared."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.lower()
