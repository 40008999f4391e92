#!/bin/sh
# Installs programs of Penstock @VERSION@ from this folder into a virtual environment. Downloads
# nothing, and verifies every file's checksum. On the machine that runs Ansible:
#
#     sh release/penstock-install-@VERSION@.sh ~/penstock certificates
#
# Then run ~/penstock/bin/penstock. An existing folder is replaced if this script created it;
# otherwise the script fails. PYTHON=python3.12 selects another Python.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: sh $0 FOLDER PROGRAM…, with agent, broker, registry, mirror, loader, audit or" \
        "certificates (for a controller) as programs" >&2
    exit 2
fi
case $1 in /*) folder=$1 ;; *) folder=$PWD/$1 ;; esac
shift
if [ -e "$folder" ] && [ ! -e "$folder/penstock-release" ]; then
    echo "$folder exists, and this script did not create it: name another folder" >&2
    exit 1
fi
python=${PYTHON:-python3}
tag=$("$python" -I -c 'import sys; print("py%d%d" % sys.version_info[:2])')
archives=penstock-wheelhouse-@VERSION@-$tag-linux-$(uname -m).tar
case " $* " in *" loader "* | *" all "*) archives="$archives penstock-wheelhouse-@VERSION@-spark.tar" ;; esac
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
cd "$(dirname "$0")"
for archive in $archives; do
    if [ ! -e "$archive" ]; then
        echo "$PWD has no $archive. It has:" >&2
        ls | grep '^penstock-wheelhouse-' >&2
        exit 1
    fi
    grep -F "  $archive" SHA256SUMS | sha256sum --check --quiet - || {
        echo "$PWD/$archive does not match SHA256SUMS in the same folder" >&2
        exit 1
    }
    tar -xf "$archive" -C "$wheels" --strip-components=1
done
cd "$wheels"
lists=
for program in "$@"; do
    if [ ! -e "requirements-$program.txt" ]; then
        echo "this release contains no program '$program'" >&2
        exit 1
    fi
    lists="$lists --requirement requirements-$program.txt"
done
rm -rf "$folder"
mkdir -p "$folder"
echo "@VERSION@" > "$folder/penstock-release"
"$python" -I -m venv --without-pip "$folder"
PIP_CONFIG_FILE=/dev/null "$folder/bin/python" -I "$(ls pip-*.whl)/pip" install --quiet --no-index \
    --no-cache-dir --disable-pip-version-check --require-hashes --only-binary :all: \
    --find-links . $lists
"$folder/bin/penstock" --version
