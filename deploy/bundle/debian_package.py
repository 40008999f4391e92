"""The agent's bundle as a Debian package, `penstock-agent`: the same files in the same place.

It puts the links in place that the unit goes by, makes the user, and starts the agent once there is
a configuration. Made by dpkg-deb without root. A host is kept either by this package or by the
collection: where a release was put by somebody else, it does not install.
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
    echo "penstock-agent: $link was not made by a package: remove that release first" >&2
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
    echo "write /etc/penstock/agent.yaml (penstock check-config agent FILE tells about it), then"
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
    """`tree` is the assembled bundle, `source` what is committed."""
    package = tree.with_name(f"{tree.name}-package")
    release = package / "opt/penstock/releases" / version
    release.parent.mkdir(parents=True)
    shutil.copytree(tree, release, symlinks=True)
    (package / "opt/penstock/current").symlink_to(f"releases/{version}")
    (package / "opt/penstock/bin").symlink_to("current/bin")
    unit = package / "usr/lib/systemd/system/penstock-agent.service"
    unit.parent.mkdir(parents=True)
    shutil.copyfile(source / "deploy/systemd/penstock-agent.service", unit)
    about = package / "usr/share/doc/penstock-agent"
    (about / "examples").mkdir(parents=True)
    shutil.copyfile(source / "LICENSE", about / "copyright")
    for sample in ("agent.yaml", "agent-minimal.yaml"):
        shutil.copyfile(source / "docs/samples" / sample, about / "examples" / sample)
    # Of files alone: how large a folder is depends on the filesystem that it lies in.
    files = (each for each in package.rglob("*") if each.is_file() and not each.is_symlink())
    size = sum(each.stat().st_size for each in files) // 1024
    control = package / "DEBIAN"
    control.mkdir()
    said = _CONTROL.format(version=version, architecture=processor.debian, size=size)
    (control / "control").write_text(said)
    scripts = {"preinst": _PREINST, "postinst": _POSTINST, "prerm": _PRERM, "postrm": _POSTRM}
    for name, script in scripts.items():
        (control / name).write_text(script)
    for each in [package, *package.rglob("*")]:
        if not each.is_symlink():
            runs = each.is_dir() or each.stat().st_mode & 0o100 or each.name in scripts
            each.chmod(0o755 if runs else 0o644)
        os.utime(each, (time, time), follow_symlinks=False)
    pack = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--threads-max=1", "--build"]
    subprocess.run(
        [*pack, str(package), str(path)],
        check=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(time)},
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(package)
