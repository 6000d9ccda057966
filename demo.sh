#!/usr/bin/env bash
# Index a folder of markdown, ask it from the shell, serve it over MCP, ask it again.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: ./demo.sh [--serve] [--query TEXT] [DIR]

Indexes DIR (any folder or repository with markdown; without one, this project's own
documentation), answers a query from the shell and one over MCP, prints the client
configuration to paste, and stops. Writes only to .venv and a temporary folder.

  --serve        leave the server running
  --query TEXT   what to ask
  -h, --help     this text

RAG_PORT picks the port (8765), PYTHON the Python to use.
USAGE
}

serve=no
query=""
directory=""
while [ $# -gt 0 ]; do
  case $1 in
    --serve) serve=yes ;;
    --query)
      [ $# -gt 1 ] || { usage >&2; exit 2; }
      query=$2
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    -*) printf 'demo.sh: unknown option %s\n\n' "$1" >&2; usage >&2; exit 2 ;;
    *)
      [ -z "$directory" ] || { printf 'demo.sh: one folder at a time\n' >&2; exit 2; }
      directory=$1
      ;;
  esac
  shift
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -n "$directory" ]; then
  [ -d "$directory" ] || { printf 'demo.sh: no such folder: %s\n' "$directory" >&2; exit 2; }
  directory=$(cd "$directory" && pwd)
  query=${query:-"What is this about, and how do I get started?"}
else
  directory=$root
  query=${query:-"Which exit code tells cron that another run holds the lock?"}
fi
cd "$root"
# shellcheck source=scripts/environment.sh
source scripts/environment.sh

# A temporary folder of our own, found again next time so that nothing is embedded twice.
work="${TMPDIR:-/tmp}/docs-rag-demo-$(id -u)"
mkdir -p "$work"
{ [ -O "$work" ] && [ ! -L "$work" ]; } || fail "$work belongs to somebody else; set TMPDIR to another folder"
chmod 700 "$work"
RAG_DIR="$work/$(printf '%s' "$directory" | cksum | tr -d ' ')"
mkdir -p "$RAG_DIR"

prepare_environment ""
PATH="$venv/bin:$PATH"
# Only this demo's settings: whatever the caller's shell configures stays out of it.
port=${RAG_PORT:-8765}
for name in $(compgen -e | grep -E '^(RAG_|EMBED_|LMSTUDIO_)' | grep -vx RAG_DIR || true); do
  unset "$name"
done
export RAG_DIR RAG_PORT=$port RAG_CORPUS=demo
url="http://127.0.0.1:$port/mcp"

step() { printf '\n== %s\n' "$1"; }

step "scope: what of $directory is documentation"
docs-rag init "$directory" --name demo --replace --yes

step "index"
docs-rag index --allow-shrink

step "query from the shell: $query"
docs-rag query -k 2 "$query"

step "MCP server"
log="$RAG_DIR/serve.log"
: >"$log"
nohup docs-rag serve >>"$log" 2>&1 &
server=$!
stop() {
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
}
trap stop EXIT
for _ in $(seq 1 100); do
  grep -q ' serving corpus ' "$log" && break
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$log" >&2
    fail "the server did not start (above, what it said). To use another port: RAG_PORT=8766 $0"
  fi
  sleep 0.2
done

step "the same over MCP, with the MCP client"
docs-rag probe "$url" --query "$query" -k 1

step "client configuration"
docs-rag clients "$url"

if [ "$serve" = yes ]; then
  trap - EXIT
  disown "$server"
  printf '\nThe server is running at %s (log: %s). To stop it: kill %s\n' "$url" "$log" "$server"
else
  stop
  trap - EXIT
  printf '\nThe server was stopped. To keep it running: ./demo.sh --serve %q\n' "$directory"
fi
