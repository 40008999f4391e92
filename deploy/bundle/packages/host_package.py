"""The content of the package `penstock-agent`: debian_package.py and rpm_package.py write it.

A package has the bundle's files where the Ansible collection puts them, the links that the unit
uses, the unit, and sample configurations. Its scripts create the user, start the agent if it has a
configuration, and restart it after an upgrade. A package contains no configuration, so no upgrade
or removal changes one. A host is managed either by a package or by the Ansible collection: the
package refuses to install over another release.
"""

import os
import shutil
from pathlib import Path
from typing import Final

NAME: Final = "penstock-agent"
SUMMARY: Final = "follows log files and ships each line once"
DESCRIPTION: Final = (
    "Penstock's agent, with an interpreter of its own: nothing else needs to be installed."
)
DOCUMENTATION: Final = f"usr/share/doc/{NAME}"
UNIT: Final = f"usr/lib/systemd/system/{NAME}.service"

# Actions of the packages' scripts, for /bin/sh with `set -e`. Before the first installation:
REFUSE_OTHER_RELEASE: Final = """\
if [ -L /opt/penstock/current ]; then
    echo "penstock-agent: /opt/penstock has a release of no package: remove it first" >&2
    exit 1
fi
"""
# After an installation. The variable `upgrade` is empty if it is the first.
SET_UP: Final = """\
# The unit names this group, and some distributions lack it.
getent group adm >/dev/null || groupadd --system adm
if ! getent passwd penstock-agent >/dev/null; then
    useradd --system --user-group --no-create-home --home-dir /var/lib/penstock/agent \\
        --shell /usr/sbin/nologin penstock-agent
fi
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$upgrade" ]; then
    systemctl try-restart penstock-agent.service
elif [ -e /etc/penstock/agent.yaml ]; then
    systemctl enable --now penstock-agent.service
else
    echo "write /etc/penstock/agent.yaml (check it: penstock check-config agent FILE), then run"
    echo "    systemctl enable --now penstock-agent"
fi
"""
# Before and after the removal:
STOP: Final = """\
if [ -d /run/systemd/system ]; then
    systemctl disable --now penstock-agent.service || true
fi
"""
FORGET: Final = """\
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
"""


def assemble(package: Path, tree: Path, source: Path, version: str, time: int) -> None:
    """Fills the new folder `package`. `tree` is the assembled bundle, `source` the exported
    commit."""
    release = package / "opt/penstock/releases" / version
    release.parent.mkdir(parents=True)
    shutil.copytree(tree, release, symlinks=True)
    (package / "opt/penstock/current").symlink_to(f"releases/{version}")
    (package / "opt/penstock/bin").symlink_to("current/bin")
    (package / UNIT).parent.mkdir(parents=True)
    shutil.copyfile(source / f"deploy/systemd/{NAME}.service", package / UNIT)
    documentation = package / DOCUMENTATION
    (documentation / "examples").mkdir(parents=True)
    shutil.copyfile(source / "LICENSE", documentation / "copyright")
    for sample in ("agent.yaml", "agent-minimal.yaml"):
        shutil.copyfile(source / "docs/samples" / sample, documentation / "examples" / sample)
    fix(package, time)


def fix(folder: Path, time: int) -> None:
    """Sets modes and times in `folder`, so that they do not depend on umask and clock."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
        os.utime(path, (time, time), follow_symlinks=False)
