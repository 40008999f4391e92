"""The agent's bundle as a Debian package, `penstock-agent`: the same files in the same place.

The package installs the links that the unit uses, creates the user, and starts the agent if it has
a configuration. dpkg-deb builds it without root. A host is managed either by this package or by the
Ansible collection: the package refuses to install over another release.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from deploy.bundle.targets import Processor

_CONTROL: Final = """\
Package: penstock-agent
Version: {version}
Architecture: {architecture}
Maintainer: The Penstock authors <penstock@localhost>
Installed-Size: {size}
Depends: passwd
Section: admin
Priority: optional
Description: follows log files and ships each line once
 Penstock's agent, with an interpreter of its own: nothing else needs to be installed.
"""
_PREINST: Final = """\
#!/bin/sh
set -e
link=/opt/penstock/current
if [ "$1" = install ] && [ -L "$link" ] && ! dpkg-query --search "$link" >/dev/null 2>&1; then
    echo "penstock-agent: $link belongs to no package: remove that release first" >&2
    exit 1
fi
"""
_POSTINST: Final = """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
if ! getent passwd penstock-agent >/dev/null; then
    useradd --system --user-group --no-create-home --home-dir /var/lib/penstock/agent \\
        --shell /usr/sbin/nologin penstock-agent
fi
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$2" ]; then
    systemctl try-restart penstock-agent.service
elif [ -e /etc/penstock/agent.yaml ]; then
    systemctl enable --now penstock-agent.service
else
    echo "write /etc/penstock/agent.yaml (check it: penstock check-config agent FILE), then run"
    echo "    systemctl enable --now penstock-agent"
fi
"""
_PRERM: Final = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now penstock-agent.service || true
fi
"""
_POSTRM: Final = """\
#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm -rf /var/lib/penstock/agent
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
"""


def build(
    path: Path, tree: Path, source: Path, processor: Processor, *, version: str, time: int
) -> None:
    """Builds the package: `tree` is the assembled bundle, `source` the exported commit."""
    package = tree.with_name(f"{tree.name}-package")
    release = package / "opt/penstock/releases" / version
    release.parent.mkdir(parents=True)
    shutil.copytree(tree, release, symlinks=True)
    (package / "opt/penstock/current").symlink_to(f"releases/{version}")
    (package / "opt/penstock/bin").symlink_to("current/bin")
    unit = package / "usr/lib/systemd/system/penstock-agent.service"
    unit.parent.mkdir(parents=True)
    shutil.copyfile(source / "deploy/systemd/penstock-agent.service", unit)
    documentation = package / "usr/share/doc/penstock-agent"
    (documentation / "examples").mkdir(parents=True)
    shutil.copyfile(source / "LICENSE", documentation / "copyright")
    for sample in ("agent.yaml", "agent-minimal.yaml"):
        shutil.copyfile(source / "docs/samples" / sample, documentation / "examples" / sample)
    # Only files: a folder's size depends on the filesystem.
    files = (path for path in package.rglob("*") if path.is_file() and not path.is_symlink())
    size = sum(file.stat().st_size for file in files) // 1024
    control_directory = package / "DEBIAN"
    control_directory.mkdir()
    fields = _CONTROL.format(version=version, architecture=processor.debian, size=size)
    (control_directory / "control").write_text(fields)
    scripts = {"preinst": _PREINST, "postinst": _POSTINST, "prerm": _PRERM, "postrm": _POSTRM}
    for name, script in scripts.items():
        (control_directory / name).write_text(script)
    for member in [package, *package.rglob("*")]:
        if not member.is_symlink():
            is_executable = (
                member.is_dir() or member.stat().st_mode & 0o100 or member.name in scripts
            )
            member.chmod(0o755 if is_executable else 0o644)
        os.utime(member, (time, time), follow_symlinks=False)
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--threads-max=1", "--build"]
    subprocess.run(
        [*command, str(package), str(path)],
        check=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(time)},
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(package)
