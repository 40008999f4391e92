#!/usr/bin/python
"""Collects a host's support information: versions, units, logs, configurations and status pages.

Penstock logs no secrets. Values whose key suggests a secret are removed from configurations, and
files of secrets and keys are not read. A long part is cut to its end.
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
short_description: Collect a host's support information without secrets
description: [Changes nothing.]
options:
  since: {description: "The start of the logs, as for journalctl.", type: str, default: -24h}
  lines: {description: The maximum number of log lines per unit., type: int, default: 20000}
  root: {description: The folder of releases., type: path, default: /opt/penstock}
  config_dir: {description: The folder of configurations., type: path, default: /etc/penstock}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Collect the last two hours
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
    """Returns a configuration with `***` in place of possible secrets, including nested values."""
    text = _KEY_BLOCK.sub("*** a private key ***", text)
    safe_lines, secret_indent = [], None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if secret_indent is not None and (not line.strip() or indent > secret_indent):
            continue
        keys = (key for key in _KEY.finditer(line) if not _NAMES_A_FILE.search(key.group()))
        key = next(keys, None)
        secret_indent = None if key is None else indent
        safe_line = line if key is None else line[: key.end()] + "***"
        safe_lines.append(_IN_URL.sub(r"\1***@", safe_line))
    return "\n".join(safe_lines) + "\n"


def end_of(text):
    return text if len(text) <= MOST else "… (beginning omitted)\n" + text[-MOST:]


class Collection:
    def __init__(self, module):
        self.module = module
        self.parts = []

    def add(self, title, text):
        self.parts.append(f"===== {title}\n{end_of(text)}\n")

    def command(self, *argv):
        code, output, error = self.module.run_command(list(argv), errors="backslashreplace")
        self.add(" ".join(argv), output if not code else f"{output}(exit code {code})\n{error}")
        return output

    def configurations(self, folder):
        """Adds the configurations; returns sorted (port, program) pairs of their listeners."""
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
            ports.update((int(port), program) for port in _LISTENS.findall(text))
        return sorted(pair for pair in ports.items() if 0 < pair[0] < 65536)

    def pages(self, ports, tls):
        for port, program in ports:
            certificate = os.path.join(tls, f"{program}.pem")
            schemes = [("http", {})]
            if os.path.exists(certificate):
                # A protected page accepts the program's own certificate.
                options = {"client_cert": certificate, "ca_path": os.path.join(tls, "ca.pem")}
                schemes.append(("https", options))
            for page in _PAGES:
                self.page(f"127.0.0.1:{port}{page}", schemes)

    def page(self, address, schemes):
        errors = []
        for scheme, options in schemes:
            try:
                response = open_url(f"{scheme}://{address}", timeout=5, use_proxy=False, **options)
                text = response.read(MOST).decode("utf-8", "backslashreplace")
            except HTTPError as error:  # also a response
                text = f"{error.code}\n" + error.read(MOST).decode("utf-8", "backslashreplace")
            except Exception as error:  # noqa: BLE001 any error belongs in the bundle
                errors.append(f"{scheme}: {type(error).__name__}: {error}")
                continue
            self.add(f"{scheme}://{address}", text)
            return
        self.add(address, f"no response: {'; '.join(errors)}\n")


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
    params = module.params
    collection = Collection(module)
    penstock = os.path.join(params["root"], "bin", "penstock")
    collection.command("date", "-u")
    collection.command("uname", "-a")
    collection.command("ls", "-l", params["root"], os.path.join(params["root"], "releases"))
    if os.path.exists(penstock):
        collection.command(penstock, "--version")
    collection.command("df", "-h")
    collection.command("free", "-m")
    collection.command("systemctl", "--no-pager", "--full", "status", "penstock-*")
    ports = collection.configurations(params["config_dir"])
    collection.pages(ports, os.path.join(params["config_dir"], "tls"))
    units = module.run_command(
        ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--full", "penstock-*"]
    )[1]
    for unit in sorted({line.split()[0] for line in units.splitlines() if line.split()}):
        if re.fullmatch(r"penstock-[A-Za-z0-9@_-]+\.service", unit):
            collection.command(
                *("journalctl", "--no-pager", "--unit", unit, "--since", params["since"]),
                *("--lines", str(params["lines"]), "--output", "short-iso"),
            )
    module.exit_json(changed=False, text="".join(collection.parts))


if __name__ == "__main__":
    main()
