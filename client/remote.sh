# shellcheck shell=bash
# Sourced by the clients here: a docs-rag command run on the host of a service, over ssh.
# Works with the bash 3.2 of macOS. Nothing that a caller types is read by a remote shell
# as anything but itself.

export LC_ALL=C
program=$(basename -- "$0")
host="" service_dir="" corpus=""
ssh_options="-o BatchMode=yes -o ConnectTimeout=10"

fail() {
  printf '%s: %s\n' "$program" "$2" >&2
  exit "$1"
}

note() {
  printf '%s: %s\n' "$program" "$1" >&2
}

# Print an argument as one word for a POSIX shell.
quoted() {
  local rest=$1 done_part=""
  while [ "$rest" != "${rest#*\'}" ]; do
    done_part="$done_part${rest%%\'*}'\\''"
    rest=${rest#*\'}
  done
  printf "'%s'" "$done_part$rest"
}

# Fail unless option $1 has a value: $2 is how many words are left with it.
need_value() {
  [ "$2" -gt 1 ] || fail 2 "$1 needs a value ($program --help)"
}

# Refuse what is missing, and what could mean another place or an option of ssh.
check_place() {
  [ -n "$corpus" ] || fail 2 "--corpus is missing ($program --help)"
  [ -n "$host" ] || fail 2 "--host is missing ($program --help)"
  [ -n "$service_dir" ] || fail 2 "--service-dir is missing ($program --help)"
  [[ $corpus =~ ^[A-Za-z0-9][A-Za-z0-9_-]*$ ]] && [ ${#corpus} -le 64 ] ||
    fail 1 "refused: this is no name of a corpus: $(quoted "$corpus")"
  [[ $host =~ ^[A-Za-z0-9_][A-Za-z0-9._@-]*$ ]] ||
    fail 1 "refused: this is no name of a host: $(quoted "$host") (give ports and addresses a name in ~/.ssh/config)"
  case $service_dir in
    *[[:cntrl:]]*) fail 1 "refused: --service-dir holds a line end or control character" ;;
    -*) fail 1 "refused: --service-dir begins with a dash" ;;
    / | .. | ../* | */.. | */../*) fail 1 "refused: --service-dir is / or holds .." ;;
  esac
  while [ "$service_dir" != "${service_dir%/}" ]; do service_dir=${service_dir%/}; done
}

# Print the shell words that enter the service folder; ~ is the one of the host.
enter_service_dir() {
  case $service_dir in
    \~) printf 'cd' ;;
    \~/*) printf 'cd ~/%s' "$(quoted "${service_dir#??}")" ;;
    *) printf 'cd %s' "$(quoted "$service_dir")" ;;
  esac
}

# The remote half: finds docs-rag in the service folder or where package managers put it.
# shellcheck disable=SC2016  # for the shell over there
find_docs_rag='
unset CDPATH
for docs_rag in "$1" .venv/bin/docs-rag "$(command -v docs-rag)" "$HOME/.local/bin/docs-rag" /usr/local/bin/docs-rag /opt/homebrew/bin/docs-rag; do
  if [ -n "$docs_rag" ] && [ -x "$docs_rag" ]; then break; fi
  docs_rag=
done
if [ -z "$docs_rag" ]; then
  echo "no docs-rag in $PWD/.venv and none on the PATH of this account: install it there, or name it by DOCS_RAG" >&2
  exit 127
fi
shift
'

# Run a script on the host, in the service folder, with docs-rag found and these arguments.
on_service() {
  local script=$1 command word
  shift
  command="$(enter_service_dir) && exec sh -c $(quoted "$find_docs_rag$script") sh $(quoted "${DOCS_RAG:-}")"
  for word in "$@"; do
    command="$command $(quoted "$word")"
  done
  # shellcheck disable=SC2086,SC2029  # words of our own, and meant for the host
  ssh $ssh_options "$host" "$command"
}

# Run one docs-rag command there.
docs_rag_on_service() {
  local verb=$1
  shift
  # shellcheck disable=SC2016  # for the shell over there
  on_service 'exec "$docs_rag" "$@"' "$verb" --rag-dir . --corpus "$corpus" "$@"
}
