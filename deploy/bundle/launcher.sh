#!/bin/sh
# One release's interpreter, with the C library that came with it: nothing of the host's is asked.
# readlink: who was started from this release keeps to it when the link `current` is moved on.
here=$(readlink -f "$0") && root=${here%/bin/*} || exit 1
if [ -z "$SSL_CERT_FILE$SSL_CERT_DIR" ]; then
    for each in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
        /etc/ssl/ca-bundle.pem; do
        if [ -r "$each" ]; then
            export SSL_CERT_FILE="$each"
            break
        fi
    done
fi
exec "$root/lib/@LOADER@" --inhibit-cache --library-path "$root/lib" --argv0 "$root/bin/python3" \
    "$root/lib/python" @OPTIONS@ "$@"
