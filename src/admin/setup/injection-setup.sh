ca_bundle
printf %s "$SANDBOX_PROXY_CA_JKS" | base64 -d | write 644 "$dir/sandbox-proxy-ca.jks"
environment
step complete
