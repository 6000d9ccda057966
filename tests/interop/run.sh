#!/usr/bin/env bash
# Other people's MCP clients and suites against the real server: the official conformance
# suite, the inspector, and both generations of the TypeScript SDK.
#
# usage: tests/interop/run.sh [PYTHON]
#
# Needs npm and a registry; says so and ends with 0 where there is none, unless
# INTEROP_REQUIRED=1. Exit code 1: something does not work together any more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=${1:-python3}

skip() {
  printf 'interop: not run: %s\n' "$1"
  [ "${INTEROP_REQUIRED:-0}" != 1 ] || exit 1
  exit 0
}
step() { printf '\n-- %s\n' "$1"; }

command -v npm >/dev/null 2>&1 || skip "npm is not on this machine"
work=$(mktemp -d)
servers=()
finish() {
  for server in ${servers[@]+"${servers[@]}"}; do kill "$server" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

# Exact versions stand in package.json; a lock file would name a registry.
stamp=node_modules/.installed
if ! cmp -s package.json "$stamp"; then
  if ! npm install --no-package-lock --no-audit --no-fund --no-progress >"$work/npm.log" 2>&1; then
    tail -5 "$work/npm.log"
    skip "the packages could not be installed (above, what npm said)"
  fi
  cp package.json "$stamp"
fi
# The package "node" brings a Node that is new enough, whatever is on this machine.
PATH="$PWD/node_modules/.bin:$PATH"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 22 ? 0 : 1)' ||
  skip "Node 22 or newer is needed, this is $(node --version)"
export HOME="$work" # some of these write there

free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# serve NAME SCRIPT ARGS...: start a server and wait until it says that it serves
serve() {
  local name=$1 pid
  shift
  "$python" "$@" 2>"$work/$name.log" &
  pid=$!
  servers+=("$pid")
  for _ in $(seq 1 300); do
    grep -q ' serving corpus ' "$work/$name.log" && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  cat "$work/$name.log"
  exit 1
}

# quietly COMMAND...: show what it printed only if it failed
quietly() {
  "$@" >"$work/output" 2>&1 || {
    tail -40 "$work/output"
    printf 'interop: failed: %s\n' "$*"
    exit 1
  }
}

mkdir "$work/rag"
port=$(free_port)
url="http://127.0.0.1:$port/mcp"
serve corpus serve_corpus.py "$work/rag" "$port"

step "conformance: the corpus server"
quietly conformance server --url "$url" --expected-failures conformance-baseline.yml -o "$work/corpus"
sed -n 's/^Total: *\(.*\)/checks: \1 (each failure is in the committed baseline)/p' "$work/output"

step "conformance: the suite's own fixtures behind the same guard"
fixtures_port=$(free_port)
serve fixtures serve_fixtures.py "$fixtures_port"
quietly conformance server --url "http://127.0.0.1:$fixtures_port/mcp" \
  --expected-failures conformance-baseline-fixtures.yml -o "$work/fixtures"
sed -n 's/^Total: *\(.*\)/checks: \1 (each failure is in the committed baseline)/p' "$work/output"

step "inspector, both eras and stdio"
call=(--method tools/call --tool-name retrieve --tool-args-json '{"query":"LAMP-0502","k":1}')
for era in legacy modern auto; do
  http=(inspector --cli "$url" --transport http --protocol-era "$era" --format json -q)
  quietly "${http[@]}" --method tools/list --strict
  quietly "${http[@]}" "${call[@]}"
done
quietly inspector --cli --transport stdio --format json -q "${call[@]}" -- \
  "$(command -v "$python")" "$PWD/serve_corpus.py" "$work/rag" 1 stdio
echo "ok: inspector"

step "TypeScript SDK, v1 and v2"
quietly node clients.mjs "$url"
cat "$work/output"

step "TypeScript SDK, v1 and v2, with a token"
token="interop-$("$python" -c 'import secrets; print(secrets.token_urlsafe(32))')"
protected_port=$(free_port)
RAG_AUTH_TOKEN=$token serve protected serve_corpus.py "$work/rag" "$protected_port"
quietly node clients.mjs "http://127.0.0.1:$protected_port/mcp" "$token"
cat "$work/output"
