"""The agent's package for Debian, built by dpkg-deb without root. Its content: host_package.py."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from deploy.bundle.packages import host_package
from deploy.bundle.packages.host_package import DESCRIPTION, NAME, SUMMARY
from deploy.bundle.targets import Processor

_CONTROL: Final = f"""\
Package: {NAME}
Version: {{version}}
Architecture: {{architecture}}
Maintainer: The Penstock authors <penstock@localhost>
Installed-Size: {{size}}
Depends: passwd
Section: admin
Priority: optional
Description: {SUMMARY}
 {DESCRIPTION}
"""
_HEAD: Final = "#!/bin/sh\nset -e\n"
# postinst's second argument does not tell an upgrade from an installation after `apt remove`.
_FIRST: Final = "/run/penstock-agent.first"
_SCRIPTS: Final = {
    # After an interrupted installation the link may belong to this package.
    "preinst": f"""\
{_HEAD}[ "$1" = install ] || exit 0
: > {_FIRST}
if dpkg-query --search /opt/penstock/current >/dev/null 2>&1; then
    exit 0
fi
{host_package.REFUSE_OTHER_RELEASE}""",
    "postinst": f"""\
{_HEAD}[ "$1" = configure ] || exit 0
upgrade=$2
if [ -e {_FIRST} ]; then
    upgrade=
    rm {_FIRST}
fi
{host_package.SET_UP}""",
    "prerm": f"""\
{_HEAD}[ "$1" = remove ] || exit 0
{host_package.STOP}""",
    "postrm": f"""\
{_HEAD}if [ "$1" = purge ]; then
    rm -rf /var/lib/penstock/agent
fi
{host_package.FORGET}""",
}


def build(path: Path, content: Path, processor: Processor, *, version: str, time: int) -> None:
    """Builds the package of a folder that `host_package.assemble` has filled."""
    # Only files: a folder's size depends on the filesystem.
    files = (path for path in content.rglob("*") if path.is_file() and not path.is_symlink())
    size = sum(file.stat().st_size for file in files) // 1024
    control = content / "DEBIAN"
    control.mkdir()
    fields = _CONTROL.format(version=version, architecture=processor.debian, size=size)
    (control / "control").write_text(fields)
    for name, script in _SCRIPTS.items():
        (control / name).write_text(script)
        (control / name).chmod(0o755)
    host_package.fix(control, time)
    os.utime(content, (time, time))
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--threads-max=1", "--build"]
    subprocess.run(
        [*command, str(content), str(path)],
        check=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(time)},
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(control)
