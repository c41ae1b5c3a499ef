part='github setup'
step start
: "${HOME:=/root}"
export HOME
credentials() {
    step configure-proxy
    if command -v git >/dev/null; then
        for_host="http.https://${GH_HOST:-github.com}/"
        git config --global "$for_host.proxy" "$SANDBOX_PROXY_GITHUB_PROXY"
        git config --global "$for_host.proxyAuthMethod" basic
        git config --global "$for_host.extraHeader" "X-Sandbox-Proxy-Token: $SANDBOX_PROXY_TOKEN"
    fi
    printf '%s\n%s\n' "$SANDBOX_PROXY_GITHUB_PROXY" "$SANDBOX_PROXY_TOKEN" | write 600 "$dir/github-gh-proxy"
}
