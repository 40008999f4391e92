"""A program's certificate on the controller: looked at, and signed where that is needed.

Where a certificate is still good is read from its file, so that nothing is started for a thousand
hosts whose certificates are. One of several Ansible processes at a time signs.
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
_PATIENCE = 120
_MOST = 1 << 20


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        given = self._task.args
        name = str(given["name"])
        if not _NAME.fullmatch(name):
            raise AnsibleActionFail(f"invalid certificate name: {name!r}")
        directory = Path(given["directory"])
        hosts = [each for each in dict.fromkeys(map(str, given.get("hosts") or [])) if host(each)]
        file = directory / f"{name}.pem"
        why = "" if given.get("source") == "files" else self._why(file, hosts, given)
        result = {"changed": bool(why), "file": str(file), "why": why}
        result["exists"] = file.exists()
        if given.get("source") == "files":
            if not file.exists() or not (directory / "ca.pem").exists():
                raise AnsibleActionFail(f"{directory} lacks {name}.pem, with its key, or ca.pem")
        elif why and self._task.check_mode:
            if given.get("try_command"):
                self._try(given)
        elif why:
            with alone(directory):
                # Another one may have done it meanwhile, unless it is wanted in any case.
                if self._why(file, hosts, given):
                    self._sign(name, file, hosts, given)
            result["exists"] = True
        return result

    @staticmethod
    def _why(file, hosts, given):
        """Why it must be signed; empty if it need not."""
        if not file.exists():
            return "there is none"
        if given.get("renew") in {True, "true", "True", "yes"}:
            return "it is asked for"
        try:
            known = ssl._ssl._test_decode_cert(str(file))
        except (ssl.SSLError, OSError, ValueError):
            return "it cannot be read"
        left = ssl.cert_time_to_seconds(known["notAfter"]) - time.time()
        least = int(given.get("renew_days") or 30)
        if left < least * _DAY:
            return f"less than {least} days are left"
        has = {plain(value) for _kind, value in known.get("subjectAltName", ())}
        lacking = [each for each in hosts if plain(each) not in has]
        return f"it is not for {', '.join(lacking)}" if lacking else ""

    def _try(self, given):
        """Fails unless the command that signs, or issues, is on the controller."""
        if given.get("source") == "command":
            command = [str(each) for each in given.get("issue") or [""]]
            if shutil.which(command[0]) is None:
                raise AnsibleActionFail(
                    f"{command[0] or 'no command'} is not on the controller: set "
                    "penstock_certificates_issue_command to the command that issues certificates"
                )
            return
        penstock = [str(each) for each in given.get("penstock") or ["penstock"]]
        self._command([*penstock, "certificates", "sign", "--help"])

    def _sign(self, name, file, hosts, given):
        days = str(given.get("days") or 365)
        if given.get("source") == "command":
            self._issue(name, file, hosts, days, given)
            return
        directory = file.parent
        penstock = [str(each) for each in given.get("penstock") or ["penstock"]]
        if not (directory / "ca.pem").exists():
            title = str(given.get("authority_name") or "Penstock")
            self._command([*penstock, "certificates", "make", str(directory), "--name", title])
        listed = [part for each in hosts for part in ("--host", each)]
        self._command(
            [
                *(*penstock, "certificates", "sign", name, *listed, "--days", days),
                *("--force", "--authority", str(directory)),
            ]
        )

    def _issue(self, name, file, hosts, days, given):
        command = [str(each) for each in given.get("issue") or []]
        if not command:
            raise AnsibleActionFail("penstock_certificates_issue_command is not set")
        about = {
            "PENSTOCK_NAME": name,
            "PENSTOCK_HOSTS": ",".join(hosts),
            "PENSTOCK_DAYS": days,
        }
        file.parent.mkdir(mode=0o700, exist_ok=True)
        said = self._command(command, about)
        if b"PRIVATE KEY-----" not in said or b"BEGIN CERTIFICATE-----" not in said:
            raise AnsibleActionFail(f"{command[0]} did not print a key and a certificate (PEM)")
        descriptor, new = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(said)
            os.replace(new, file)
        except OSError:
            os.unlink(new)
            raise

    @staticmethod
    def _command(command, about=None):
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **(about or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except FileNotFoundError:
            raise AnsibleActionFail(
                f"{command[0]} is not on the controller's PATH. The release folder installs it: "
                "sh release/penstock-install-VERSION.sh ~/penstock certificates. Then put "
                "~/penstock/bin on the PATH, or the command's path into "
                "penstock_certificates_penstock"
            ) from None
        except subprocess.TimeoutExpired:
            raise AnsibleActionFail(f"{command[0]} took more than {_PATIENCE} s") from None
        if done.returncode or len(done.stdout) > _MOST:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise AnsibleActionFail(f"{' '.join(command[:3])} failed: {said}")
        return done.stdout


@contextmanager
def alone(directory):
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def host(text):
    """Whether a certificate can be for it."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_HOST.fullmatch(text))
    return True


def plain(text):
    """As it is compared."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.lower()
