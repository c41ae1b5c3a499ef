ca_bundle
step add-safe-directories
if command -v git >/dev/null && ! git config --global --get-all safe.directory | grep -qxF /workspace; then
    git config --global --add safe.directory /workspace
fi
credentials
step configure-gh-wrapper
mkdir -p "$HOME/.local/bin"
write 755 "$HOME/.local/bin/gh" <<'WRAPPER'
#!/bin/sh
# SANDBOX_PROXY_GH_WRAPPER=1
file=/tmp/sandbox-proxy/github-gh-proxy
proxy= token=
if [ -r "$file" ]; then
    { IFS= read -r proxy && IFS= read -r token; } <"$file" || true
fi
proxy=${proxy:-${SANDBOX_PROXY_GITHUB_PROXY:-}}
token=${token:-${SANDBOX_PROXY_TOKEN:-${GH_TOKEN:-${GITHUB_TOKEN:-}}}}
if [ -z "$proxy" ] || [ -z "$token" ]; then
    echo "gh: the sandbox's proxy is not set up: there is no proxy or no token in $file" >&2
    exit 1
fi
export HTTP_PROXY="$proxy" HTTPS_PROXY="$proxy" http_proxy="$proxy" https_proxy="$proxy"
export GH_TOKEN="$token" GITHUB_TOKEN="$token"
bundle=/tmp/sandbox-proxy/sandbox-proxy-ca-bundle.crt
if [ -r "$bundle" ]; then export SSL_CERT_FILE="$bundle"; fi
if [ -n "${SANDBOX_PROXY_REAL_GH:-}" ]; then exec "$SANDBOX_PROXY_REAL_GH" "$@"; fi
if [ -x /usr/bin/gh ]; then exec /usr/bin/gh "$@"; fi
IFS=:
for directory in $PATH; do
    if [ -x "$directory/gh" ] && ! grep -q SANDBOX_PROXY_GH_WRAPPER=1 "$directory/gh" 2>/dev/null; then
        exec "$directory/gh" "$@"
    fi
done
echo 'gh: there is no gh but the wrapper of the sandbox' >&2
exit 127
WRAPPER
line='case ":$PATH:" in *":$HOME/.local/bin:"*) ;; *) PATH="$HOME/.local/bin:$PATH" ;; esac'
if ! grep -qxF "$line" "$HOME/.profile" 2>/dev/null; then printf '%s\n' "$line" >>"$HOME/.profile"; fi
PATH="$HOME/.local/bin:$PATH"
if [ "$(command -v gh)" != "$HOME/.local/bin/gh" ]; then
    echo "sandbox-proxy github setup: $HOME/.local/bin/gh is not the gh that is found" >&2
    exit 1
fi
step configure-ca
if command -v git >/dev/null; then git config --global http.sslCAInfo "$dir/sandbox-proxy-ca-bundle.crt"; fi
step complete
