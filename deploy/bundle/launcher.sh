#!/bin/sh
# Starts the release's interpreter with the bundled C library instead of the host's. readlink
# resolves the link `current`: a running process keeps its release when the link changes.
here=$(readlink -f "$0") && root=${here%/bin/*} || exit 1
if [ -z "$SSL_CERT_FILE$SSL_CERT_DIR" ]; then
    for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
        /etc/ssl/ca-bundle.pem; do
        if [ -r "$file" ]; then
            export SSL_CERT_FILE="$file"
            break
        fi
    done
fi
exec "$root/lib/@LOADER@" --inhibit-cache --library-path "$root/lib" --argv0 "$root/bin/python3" \
    "$root/lib/python" @OPTIONS@ "$@"
