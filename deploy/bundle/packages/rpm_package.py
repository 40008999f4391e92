"""The agent's package for Red Hat, Fedora and SUSE, built by rpmbuild without root.

host_package.py has its content. rpmbuild does not read the user's settings. The package is
compressed by xz, which rpm has read since version 4.8, and is not signed.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from deploy.bundle.packages import host_package
from deploy.bundle.packages.host_package import DESCRIPTION, DOCUMENTATION, NAME, SUMMARY, UNIT
from deploy.bundle.targets import Processor

# rpmbuild would otherwise record its host and clock, strip programs, compile Python files, and add
# links by build ids.
_MACROS: Final = {
    "_binary_payload": "w6.xzdio",
    "_build_id_links": "none",
    "_buildhost": "reproducible",
    "__os_install_post": "%{nil}",
    "clamp_mtime_to_source_date_epoch": "1",
    "debug_package": "%{nil}",
    "source_date_epoch_from_changelog": "0",
    "use_source_date_epoch_as_buildtime": "1",
}
# A scriptlet's first argument is the number of versions that will be installed after it.
_SPEC: Final = f"""\
Name: {NAME}
Version: {{version}}
Release: 1
Summary: {SUMMARY}
License: Apache-2.0, and those in /opt/penstock/current/licenses
AutoReqProv: no
Requires: coreutils
Requires(post): /usr/sbin/useradd
Requires(post): /usr/sbin/groupadd
Requires(post): /usr/bin/getent

%description
{DESCRIPTION}

%install
cp -a "%{{{{_topdir}}}}/content/." "%{{{{buildroot}}}}"

%files
%dir /opt/penstock
%dir /opt/penstock/releases
/opt/penstock/bin
/opt/penstock/current
/opt/penstock/releases/{{version}}
/{UNIT}
%dir /{DOCUMENTATION}
/{DOCUMENTATION}/examples
%license /{DOCUMENTATION}/copyright

%pre
set -e
[ "$1" = 1 ] || exit 0
{host_package.REFUSE_OTHER_RELEASE}
%post
set -e
upgrade=
[ "$1" = 1 ] || upgrade=yes
{host_package.SET_UP}
%preun
[ "$1" = 0 ] || exit 0
{host_package.STOP}
%postun
{host_package.FORGET}"""


def build(path: Path, content: Path, processor: Processor, *, version: str, time: int) -> None:
    """Builds the package of a folder that `host_package.assemble` has filled."""
    # rpmbuild does not accept spaces in the names of its folders.
    with tempfile.TemporaryDirectory(prefix="penstock-rpm-") as folder:
        work = Path(folder)
        (work / "content").symlink_to(content.resolve())
        spec = work / f"{NAME}.spec"
        spec.write_text(_SPEC.format(version=version))
        macros = {**_MACROS, "_topdir": folder, "_tmppath": folder}
        subprocess.run(
            [
                *("rpmbuild", "-bb", "--quiet", f"--target={processor.name}-linux"),
                *(f"--define={name} {value}" for name, value in macros.items()),
                str(spec),
            ],
            check=True,
            env={**os.environ, "HOME": folder, "SOURCE_DATE_EPOCH": str(time)},
            stdout=subprocess.DEVNULL,
        )
        (package,) = work.glob("RPMS/*/*.rpm")
        shutil.copyfile(package, path)
