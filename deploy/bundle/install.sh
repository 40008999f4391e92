#!/bin/sh
# Installs programs of Penstock @VERSION@ from this folder. Downloads nothing, and verifies every
# file's checksum. On the machine that runs Ansible:
#
#     sh release/penstock-install-@VERSION@.sh ~/penstock certificates
#
# Then run ~/penstock/bin/penstock. The programs are in a virtual environment in ~/penstock/releases,
# to which the link ~/penstock/current points. Installing again, also another version, creates a new
# environment, tries its command, and then turns the link: whenever this script is killed, the
# command works. It tries the command through the link too, and turns the link back if that fails. The link ~/penstock/previous points to the environment before, to go back:
#
#     ln -sfnT "$(readlink ~/penstock/previous)" ~/penstock/current
#
# A folder that this script did not create is left alone. PYTHON=python3.12 selects another Python.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: sh $0 FOLDER PROGRAM…, with agent, broker, registry, mirror, loader, audit," \
        "certificates (for a controller), zookeeper-login, alert-templates or all as programs" >&2
    exit 2
fi
case $1 in /*) folder=${1%/} ;; *) folder=$PWD/${1%/} ;; esac
shift
lock=$folder/penstock-install.lock
if [ ! -e "$lock" ] && [ -e "$folder" ] && [ -n "$(ls -A "$folder")" ]; then
    echo "$folder exists, and this script did not create it: name another folder" >&2
    exit 1
fi
# The interpreter itself: a link such as $folder/bin/python3 would soon lead to the new environment.
python=$("${PYTHON:-python3}" -I -c 'import os, sys; print(os.path.realpath(sys._base_executable))')
case $python in
    "$(readlink -m "$folder")"/*)
        echo "$python is inside $folder: select a Python outside it with PYTHON=" >&2
        exit 1
        ;;
esac
tag=$("$python" -I -c 'import sys; print("py%d%d" % sys.version_info[:2])')
archives=penstock-wheelhouse-@VERSION@-$tag-linux-$(uname -m).tar
case " $* " in *" loader "* | *" all "*) archives="$archives penstock-wheelhouse-@VERSION@-spark.tar" ;; esac
sums=penstock-@VERSION@.SHA256SUMS
cd "$(dirname "$0")"
for archive in $archives; do
    if [ ! -e "$archive" ]; then
        echo "$PWD has no $archive. It has:" >&2
        ls | grep '^penstock-wheelhouse-' >&2
        exit 1
    fi
    grep -F "  $archive" "$sums" | sha256sum --check --quiet - || {
        echo "$PWD/$archive does not match $sums in the same folder" >&2
        exit 1
    }
    for program in "$@"; do
        case $archive in *-spark.tar) continue ;; esac
        tar -tf "$archive" | grep -q "/requirements-$program.txt\$" || {
            echo "this release contains no program '$program'" >&2
            exit 1
        }
    done
done
release=$PWD

mkdir -p "$folder/releases"
exec 9> "$lock"
flock --nonblock 9 || {
    echo "another run of this script is installing into $folder" >&2
    exit 1
}
cd "$folder"
# Removes everything but the current environment and the one before.
tidy() {
    for path in releases/* releases/.[!.]*; do
        case $path in "$(readlink current)" | "$(readlink previous)") ;; *) rm -rf "$path" ;; esac
    done
}
tidy
wheels=$(mktemp -d releases/.wheels.XXXXXX)
new=$(mktemp -d releases/@VERSION@.XXXXXX)
trap tidy EXIT
chmod 755 "$new"
for archive in $archives; do
    tar -xf "$release/$archive" -C "$wheels" --strip-components=1
done
lists=
for program in "$@"; do
    lists="$lists --requirement requirements-$program.txt"
done
"$python" -I -m venv --without-pip "$new"
(
    cd "$wheels"
    PIP_CONFIG_FILE=/dev/null "$folder/$new/bin/python" -I "$(ls pip-*.whl)/pip" install --quiet \
        --no-index --no-cache-dir --disable-pip-version-check --require-hashes \
        --only-binary :all: --find-links . $lists
)
"$new/bin/penstock" --version
turn() {
    ln -sfnT "$1" ".$2"
    mv -fT ".$2" "$2"
}
works() {
    "$1/bin/penstock" --version > /dev/null
}
old=$(readlink current || true)
older=$(readlink previous || true)
if [ -n "$old" ] && works current; then
    turn "$old" previous
elif [ -n "$older" ] && ! works previous; then
    rm previous
fi
turn "$new" current
turn current/bin bin
works "$folder" || {
    if [ -n "$old" ]; then turn "$old" current; else rm current bin; fi
    if [ -n "$older" ]; then turn "$older" previous; else rm -f previous; fi
    echo "$folder/bin/penstock of @VERSION@ does not run; the links are as they were before" >&2
    exit 1
}
