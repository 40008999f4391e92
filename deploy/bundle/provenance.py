"""A release's provenance: an in-toto Statement with a predicate of SLSA's provenance, version 1.

The subjects are the release's files. The dependencies are the commit, the files that pin versions,
and every package that went into the build or built a part of it. The builder's tools, on which the
bytes depend as well, are versions of the builder. There are no times and no invocation's number, so
that equal builds have equal provenances. The signature of the release's checksums covers this file.
"""

import json
import os
import platform
import shutil
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final
from urllib.parse import quote

from deploy.bundle.archives import sha256
from deploy.bundle.downloads import debian_packages, pypi, zookeeper_jars
from deploy.bundle.downloads.pypi import File

_PINS: Final = (
    "constraints.txt",
    *(
        f"deploy/bundle/downloads/{module.LOCK.name}"
        for module in (debian_packages, pypi, zookeeper_jars)
    ),
)


def text(
    files: Iterable[Path],
    revision: str,
    parameters: Mapping[str, object],
    source: Path,
    packages: Mapping[str, str],
) -> str:
    """Returns the statement as one line of JSON. `parameters` are the options of the build,
    `source` the exported commit, `packages` the SHA-256 of each package by its URL."""
    commit = {"name": "penstock", "digest": {"gitCommit": revision}}
    pins = [{"name": name, "digest": {"sha256": sha256(source / name)}} for name in _PINS]
    used = [{"uri": uri, "digest": {"sha256": packages[uri]}} for uri in sorted(packages)]
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": sha256(path)}} for path in sorted(files)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:penstock:make-release:1",
                "externalParameters": {"commit": revision, **parameters},
                "resolvedDependencies": [commit, *pins, *used],
            },
            "runDetails": {
                "builder": {
                    "id": f"urn:penstock:builder:{platform.machine()}",
                    "version": _tools(),
                }
            },
        },
    }
    return json.dumps(document, sort_keys=True) + "\n"


def of_files(files: Iterable[File]) -> dict[str, str]:
    """The SHA-256 of files of the Python Package Index by package URL."""
    return {
        f"pkg:pypi/{file.name}@{quote(file.version)}?file_name={quote(file.file)}": file.sha256
        for file in files
    }


def _tools() -> dict[str, str]:
    """The versions of this machine's tools that a release's bytes depend on."""
    commands = {"cc": os.environ.get("CC", "cc"), "dpkg-deb": "dpkg-deb", "rpmbuild": "rpmbuild"}
    return {
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "hatchling": version_of("hatchling"),
        **{
            name: _first_line(command, "--version")
            for name, command in commands.items()
            if shutil.which(command)
        },
    }


def _first_line(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[0]
