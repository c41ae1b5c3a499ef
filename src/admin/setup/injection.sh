part='secret-injection setup'
environment() {
    step write-environment
    {
        for name in HTTP_PROXY HTTPS_PROXY http_proxy https_proxy; do
            printf 'export %s=%s\n' "$name" "$(quoted "$SANDBOX_PROXY_URL_WITH_TOKEN")"
        done
        printf "export NO_PROXY='localhost,127.0.0.1,::1' no_proxy='localhost,127.0.0.1,::1'\n"
        printf 'export NODE_USE_ENV_PROXY=1\n'
        for name in @BUNDLE_VARIABLES@; do
            printf 'export %s=%s\n' "$name" "$dir/sandbox-proxy-ca-bundle.crt"
        done
        for name in @CA_ONLY_VARIABLES@; do
            printf 'export %s=%s\n' "$name" "$dir/sandbox-proxy-ca.crt"
        done
        printf 'export JAVA_TOOL_OPTIONS=%s\n' "'-Djavax.net.ssl.trustStore=$dir/sandbox-proxy-ca.jks'"
        printf 'unset %s\n' '@UNSET_VARIABLES@'
    } | write 600 "$dir/secret-injection.env"
}
