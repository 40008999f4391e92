"""A release's bill of materials in CycloneDX 1.5: Debian packages, wheels and jars.

Its only timestamp is the commit's, and it has no serial number, so that builds are reproducible.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from deploy.bundle.downloads.debian_packages import Package
from deploy.bundle.downloads.zookeeper_jars import Jar
from deploy.bundle.wheels import Wheel


class Part(msgspec.Struct, frozen=True):
    """A component, and the release's file that contains it."""

    name: str
    version: str
    purl: str
    sha256: str
    license: str
    file: str


def of_debian(package: Package, file: str) -> Part:
    version = quote(package.version, safe="")
    purl = f"pkg:deb/debian/{quote(package.name)}@{version}?arch={package.architecture}"
    return Part(package.name, package.version, purl, package.sha256, "", file)


def of_wheel(wheel: Wheel, sha256: str, file: str) -> Part:
    purl = f"pkg:pypi/{wheel.name}@{quote(wheel.version)}?file_name={quote(wheel.path.name)}"
    return Part(wheel.name, wheel.version, purl, sha256, wheel.license, file)


def of_jar(jar: Jar, file: str) -> Part:
    return Part(jar.name, jar.version, jar.purl, jar.sha256, "", file)


def text(parts: Iterable[Part], version: str, commit: str, time: int) -> str:
    """Returns the bill of materials as JSON. A component is listed once, with all files that
    contain it."""
    files: dict[str, list[Part]] = {}
    for part in parts:
        files.setdefault(part.purl, []).append(part)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": "penstock",
                "name": "penstock",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "penstock:commit", "value": commit}],
            },
        },
        "components": [_component(files[purl]) for purl in sorted(files)],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(parts: list[Part]) -> Mapping[str, object]:
    part = parts[0]
    component: dict[str, object] = {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        "hashes": [{"alg": "SHA-256", "content": part.sha256}],
        "properties": [
            {"name": "penstock:file", "value": file} for file in sorted({p.file for p in parts})
        ],
    }
    if part.license:
        component["licenses"] = [{"license": {"name": part.license}}]
    return component
