#!/usr/bin/env bash
# Ask a corpus on another machine, over ssh: the same retrieval as the MCP tool, read-only.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: query.sh --corpus NAME --host HOST --service-dir DIR [--query TEXT]
                [-k N] [--also TEXT]... [--json]

  --corpus NAME       the corpus to ask
  --host HOST         where the service runs: [user@]host, as ssh knows it
  --service-dir DIR   its RAG_DIR there: the folder of corpora.json
  --query TEXT        the question; read from standard input if left out
  -k N                at most this many passages, 1 to 20 (5)
  --also TEXT         another phrasing of the question; may be given up to 8 times
  --json              print JSON for machines
  -h, --help          this text

DOCS_RAG names the docs-rag command on the host, where it is not found by itself.

exit codes: those of docs-rag query; 255 where ssh fails
USAGE
}

# shellcheck source=client/remote.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/remote.sh"

query="" has_query=no
options=(-k 5)
while [ $# -gt 0 ]; do
  case $1 in
    --corpus) need_value "$1" $#; corpus=$2; shift ;;
    --host) need_value "$1" $#; host=$2; shift ;;
    --service-dir) need_value "$1" $#; service_dir=$2; shift ;;
    --query) need_value "$1" $#; query=$2 has_query=yes; shift ;;
    -k)
      need_value "$1" $#
      [[ $2 =~ ^[0-9]+$ ]] || fail 2 "-k must be a number: $2"
      options=("${options[@]}" -k "$2")
      shift
      ;;
    --also) need_value "$1" $#; options=("${options[@]}" "--also=$2"); shift ;;
    --json) options=("${options[@]}" --json) ;;
    -h | --help) usage; exit 0 ;;
    *) fail 2 "unknown argument $1 ($program --help)" ;;
  esac
  shift
done
check_place
if [ "$has_query" = no ]; then
  [ ! -t 0 ] || fail 2 "no question: give --query TEXT, or send it on standard input"
  docs_rag_on_service query "${options[@]}"
else
  # On standard input, where no shell looks at it.
  printf '%s' "$query" | docs_rag_on_service query "${options[@]}"
fi
