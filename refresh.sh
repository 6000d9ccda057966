#!/usr/bin/env bash
# Bring a corpus up to date from where it comes from, and then its index. For cron, launchd
# and systemd: works from any folder and with an empty environment.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: refresh.sh [--allow-shrink] CORPUS [GIT-REF]

A corpus with git_origin_repo in corpora.json is fetched from the origin of that checkout
(GIT-REF is a branch, a tag or a commit; by default what HEAD of the origin says) and
swapped in; any other corpus is only indexed. Where the fetch fails, corpus and index stay
as they were.

  --allow-shrink   purge even if that is more than half of the indexed files
  -h, --help       this text

RAG_DIR is the folder of corpora.json (~/rag-service), DOCS_RAG the command to run (.venv
beside this script, else docs-rag on the PATH).

exit codes: 0 done, 1 refused or failed, 2 usage or configuration, 75 another run is on
USAGE
}

fail() {
  printf 'refresh.sh: %s\n' "$2" >&2
  exit "$1"
}

corpus="" ref="" shrink=""
while [ $# -gt 0 ]; do
  case $1 in
    --allow-shrink) shrink=$1 ;;
    -h | --help) usage; exit 0 ;;
    -*) fail 2 "unknown option $1 (refresh.sh --help)" ;;
    "") fail 2 "an argument is empty (refresh.sh --help)" ;;
    *)
      if [ -z "$corpus" ]; then corpus=$1
      elif [ -z "$ref" ]; then ref=$1
      else fail 2 "too many arguments at $1 (refresh.sh --help)"
      fi
      ;;
  esac
  shift
done
[ -n "$corpus" ] || fail 2 "name the corpus: refresh.sh CORPUS [GIT-REF]"

# Where cron, launchd and ssh do not look, but package managers put things.
export PATH="${PATH:-/usr/bin:/bin}:/usr/local/bin:/opt/homebrew/bin${HOME:+:$HOME/.local/bin}"
here=$(CDPATH='' cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
if [ -n "${DOCS_RAG:-}" ]; then
  command -v "$DOCS_RAG" >/dev/null 2>&1 || fail 2 "DOCS_RAG names no command: $DOCS_RAG"
elif [ -x "$here/.venv/bin/docs-rag" ]; then
  DOCS_RAG=$here/.venv/bin/docs-rag
elif command -v docs-rag >/dev/null 2>&1; then
  DOCS_RAG=docs-rag
else
  fail 2 "no docs-rag in $here/.venv and none on the PATH: pip install docs-rag, or set DOCS_RAG"
fi
exec "$DOCS_RAG" refresh ${shrink:+"$shrink"} --corpus "$corpus" ${ref:+"$ref"}
