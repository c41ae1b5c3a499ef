#!/usr/bin/env bash
# The tests, all of them, on a fresh Debian machine with Rust. People and CI run the same line:
#
#     bash tests/run.sh [-- FILTER]
#
# As root it installs the clients that are missing, and runs the integration tests twice: as root and as an ordinary
# user. As an ordinary user it names what is missing. FILTER is a part of the names of the integration tests.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_BACKTRACE=0
filter=()
if [ "${1:-}" = "--" ]; then
    shift
    filter=("$@")
fi

# program:package
programs="curl:curl h2load:nghttp2-client git:git git-lfs:git-lfs wget:wget python3:python3 pip3:python3-pip node:nodejs npm:npm gh:gh
    java:default-jdk-headless openssl:openssl ip:iproute2 ps:procps setsid:util-linux setpriv:util-linux tinyproxy:tinyproxy-bin psql:postgresql
    nsenter:util-linux bwrap:bubblewrap cc:build-essential make:build-essential"
# module:package, of the distribution's own Python
modules="requests:python3-requests httpx:python3-httpx aiohttp:python3-aiohttp h2:python3-h2"

missing_packages() {
    for pair in $programs; do
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin command -v "${pair%%:*}" >/dev/null ||
            echo "${pair#*:}"
    done
    compgen -G "/usr/lib/*/libnss_wrapper.so" >/dev/null || echo libnss-wrapper
    for pair in $modules; do
        /usr/bin/python3 -c "import ${pair%%:*}" 2>/dev/null || echo "${pair#*:}"
    done
}

missing=$(missing_packages | sort -u | tr '\n' ' ')
if [ -n "$missing" ] && [ "$(id -u)" = 0 ]; then
    echo "installing $missing"
    apt-get -qq update
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null
    missing=$(missing_packages | sort -u | tr '\n' ' ')
fi
if [ -n "$missing" ]; then
    echo "missing: run  apt-get install $missing" >&2
    exit 1
fi
command -v cargo >/dev/null || { echo "missing: cargo, from https://rustup.rs" >&2; exit 1; }

minutes() { # minutes WHAT SINCE
    printf '%s: %d.%d minutes\n' "$1" $(((SECONDS - $2) / 60)) $(((SECONDS - $2) % 60 / 6))
}

# What "Executable" lines name, by the source they are built from.
executable() { sed -n "s|^ *Executable .*$1 (\(.*\))\$|\1|p" "$temporary/build"; }

temporary=$(mktemp -d /var/tmp/sandbox-proxy-run-XXXXXX)
trap 'rm -rf --one-file-system "$temporary"' EXIT
chmod 755 "$temporary"

since=$SECONDS
CARGO_TERM_COLOR=never nice -n 5 cargo test --profile ci --no-run >"$temporary/build" 2>&1 || {
    cat "$temporary/build"
    exit 1
}
minutes build "$since"

failed=0
since=$SECONDS
nice -n 5 cargo test --quiet --profile ci --lib --test architecture || failed=1
nice -n 5 cargo test --quiet --profile ci --doc || failed=1
minutes "unit tests" "$since"

# The own clients of the Mistral API and of AWS, which Debian does not have.
python=$(pwd)/target/it-python
pip() { nice -n 5 /usr/bin/pip3 install --quiet --root-user-action ignore --target "$python" "$@"; }
[ -e "$python/mistralai" ] || pip mistralai==3.7.0
[ -e "$python/boto3" ] || pip boto3==1.44.8
# What the GitHub of the tests is made of, and a client of it.
[ -e "$python/graphql" ] || pip graphql-core==3.2.6
node=$(pwd)/target/it-node
[ -e "$node/node_modules/octokit" ] ||
    nice -n 5 npm install --silent --no-fund --no-audit --no-save --ignore-scripts --prefix "$node" \
        @octokit/graphql-schema@15.26.1 octokit@4.1.4

it=$(realpath "$(executable tests/it/main.rs)")
program=$(dirname "$(dirname "$it")")/sandbox-proxy
toolchain=$(rustc --print sysroot)

echo "integration tests as $(id -un)"
IT_PYTHON=$python IT_NODE=$node IT_TOOLCHAIN=$toolchain nice -n 5 "$it" "${filter[@]}" || failed=1

# The same as a user without any privilege, who need not be able to read where root has its files: the programs are
# copied, the toolchain is bound, both in a directory of their own.
as_ordinary_user() {
    install -m 755 "$it" "$program" "$temporary/"
    install -d -o 2000 -g 2000 "$temporary/home"
    mkdir "$temporary/toolchain" "$temporary/python" "$temporary/node"
    unshare --mount sh -c '
        mount --bind "$1" "$4/toolchain" && mount --bind "$2" "$4/python" && mount --bind "$3" "$4/node" && cd / && shift 3 &&
        directory=$1 && it=$2 && shift 2 &&
        exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME="$directory/home" RUST_BACKTRACE=0 \
            IT_PROGRAM="$directory/sandbox-proxy" IT_TOOLCHAIN="$directory/toolchain" IT_PYTHON="$directory/python" \
            IT_NODE="$directory/node" nice -n 5 setpriv --reuid 2000 --regid 2000 --clear-groups "$directory/$it" "$@"' \
        sh "$toolchain" "$python" "$node" "$temporary" "$(basename "$it")" "${filter[@]}"
}
if [ "$(id -u)" = 0 ]; then
    echo "integration tests as an ordinary user"
    as_ordinary_user || failed=1
fi
exit "$failed"
