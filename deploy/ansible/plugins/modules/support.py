#!/usr/bin/python
"""What a host has to say to somebody who is to help: versions, units, logs, settings, pages.

A secret is in no log of Penstock's. Of configurations every value is left out whose key may have
one; files of secrets and keys are not opened at all. Each part is cut to its end where it is long.
"""

from __future__ import annotations

import glob
import os
import re
from urllib.error import HTTPError

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

DOCUMENTATION = r"""
module: support
short_description: Collects what a host of Penstock has to say, without secrets
description: [Changes nothing.]
options:
  since: {description: From when on logs are wanted., type: str, default: -24h}
  lines: {description: "How many of them at most, of each unit.", type: int, default: 20000}
  root: {description: Where releases are., type: path, default: /opt/penstock}
  config_dir: {description: Where configurations are., type: path, default: /etc/penstock}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: What has it to say?
  penstock.pipeline.support:
    since: -2h
"""

MOST = 4 * 1024 * 1024  # characters of a part
_KEY = re.compile(
    r"""["']?[\w.-]*(?:secret|password|passwd|token|webhook|credential|private|jaas)
    [\w.-]*["']?\s*[:=]\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_NAMES_A_FILE = re.compile(r"""(_file|_files|_env|_url|_dir)["']?\s*[:=]\s*$""", re.IGNORECASE)
_IN_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@", re.IGNORECASE)
_KEY_BLOCK = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL)
_LISTENS = re.compile(r"^(?:http_)?port:\s*(\d{1,5})\s*$", re.MULTILINE)
_PAGES = ("/readyz", "/metrics")


def without_secrets(text):
    """A configuration, with `***` for what may be one, and for what goes on below such a key."""
    text = _KEY_BLOCK.sub("*** a private key ***", text)
    kept, hidden_under = [], None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if hidden_under is not None and (not line.strip() or indent > hidden_under):
            continue
        found = (each for each in _KEY.finditer(line) if not _NAMES_A_FILE.search(each.group()))
        key = next(found, None)
        hidden_under = None if key is None else indent
        shown = line if key is None else line[: key.end()] + "***"
        kept.append(_IN_URL.sub(r"\1***@", shown))
    return "\n".join(kept) + "\n"


def end_of(text):
    return text if len(text) <= MOST else "… (its beginning is left out)\n" + text[-MOST:]


class Collection:
    def __init__(self, module):
        self.module = module
        self.parts = []

    def add(self, title, text):
        self.parts.append(f"===== {title}\n{end_of(text)}\n")

    def command(self, *argv):
        rc, out, error = self.module.run_command(list(argv), errors="backslashreplace")
        said = out if not rc else f"{out}(exit code {rc})\n{error}"
        self.add(" ".join(argv), said)
        return out

    def configurations(self, folder):
        """Shown; and on which ports which of them listens."""
        ports = {}
        for path in sorted(
            [
                *glob.glob(os.path.join(folder, "*.yaml")),
                *glob.glob(os.path.join(folder, "agent.d", "*.y*ml")),
                *glob.glob("/etc/systemd/system/penstock-*"),
                *glob.glob("/etc/systemd/system/penstock-*/*.conf"),
            ]
        ):
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, encoding="utf-8", errors="backslashreplace") as file:
                text = file.read(MOST)
            self.add(path, without_secrets(text))
            program = re.split(r"[.-]", os.path.basename(path))[0]
            ports.update((int(each), program) for each in _LISTENS.findall(text))
        return sorted(each for each in ports.items() if 0 < each[0] < 65536)

    def pages(self, ports, tls):
        for port, program in ports:
            certificate = os.path.join(tls, f"{program}.pem")
            ways = [("http", {})]
            if os.path.exists(certificate):
                # A page that is locked shows itself to the program's own certificate.
                shown = {"client_cert": certificate, "ca_path": os.path.join(tls, "ca.pem")}
                ways.append(("https", shown))
            for page in _PAGES:
                self.page(f"127.0.0.1:{port}{page}", ways)

    def page(self, where, ways):
        refused = []
        for scheme, shown in ways:
            try:
                answer = open_url(f"{scheme}://{where}", timeout=5, use_proxy=False, **shown)
                text = answer.read(MOST).decode("utf-8", "backslashreplace")
            except HTTPError as error:  # that is an answer, too
                text = f"{error.code}\n" + error.read(MOST).decode("utf-8", "backslashreplace")
            except Exception as error:  # noqa: BLE001 whatever it is belongs into the bundle
                refused.append(f"{scheme}: {type(error).__name__}: {error}")
                continue
            self.add(f"{scheme}://{where}", text)
            return
        self.add(where, f"no answer: {'; '.join(refused)}\n")


def main():
    module = AnsibleModule(
        argument_spec={
            "since": {"type": "str", "default": "-24h"},
            "lines": {"type": "int", "default": 20000},
            "root": {"type": "path", "default": "/opt/penstock"},
            "config_dir": {"type": "path", "default": "/etc/penstock"},
        },
        supports_check_mode=True,
    )
    given = module.params
    found = Collection(module)
    penstock = os.path.join(given["root"], "bin", "penstock")
    found.command("date", "-u")
    found.command("uname", "-a")
    found.command("ls", "-l", given["root"], os.path.join(given["root"], "releases"))
    if os.path.exists(penstock):
        found.command(penstock, "--version")
    found.command("df", "-h")
    found.command("free", "-m")
    found.command("systemctl", "--no-pager", "--full", "status", "penstock-*")
    ports = found.configurations(given["config_dir"])
    found.pages(ports, os.path.join(given["config_dir"], "tls"))
    units = module.run_command(
        ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--full", "penstock-*"]
    )[1]
    for unit in sorted({each.split()[0] for each in units.splitlines() if each.split()}):
        if re.fullmatch(r"penstock-[A-Za-z0-9@_-]+\.service", unit):
            found.command(
                *("journalctl", "--no-pager", "--unit", unit, "--since", given["since"]),
                *("--lines", str(given["lines"]), "--output", "short-iso"),
            )
    module.exit_json(changed=False, text="".join(found.parts))


if __name__ == "__main__":
    main()
