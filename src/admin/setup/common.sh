# Runs in any POSIX sh, again and again. It says what it does, and stops at what fails.
set -eu
dir=/tmp/sandbox-proxy
step() { printf 'sandbox-proxy %s: %s\n' "$part" "$1" >&2; }
# Puts what it reads into a file of this mode, at once.
write() {
    rm -f "$2.$$"
    (umask 077 && cat >"$2.$$")
    chmod "$1" "$2.$$"
    mv -f "$2.$$" "$2"
}
# A value as a shell reads it back, whatever it holds.
quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
ca_bundle() {
    step write-ca-bundle
    mkdir -p "$dir"
    printf '%s\n' "$SANDBOX_PROXY_CA_CERT" | write 644 "$dir/sandbox-proxy-ca.crt"
    for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
        if [ -f "$bundle" ]; then break; else bundle=/dev/null; fi
    done
    { cat "$bundle" && printf '\n%s\n' "$SANDBOX_PROXY_CA_CERT"; } | write 644 "$dir/sandbox-proxy-ca-bundle.crt"
}
