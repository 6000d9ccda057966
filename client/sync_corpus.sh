#!/usr/bin/env bash
# Push the documentation of a checkout to a service on another machine: exactly the scope
# that the service declares, over ssh, and then index it there.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: sync_corpus.sh --corpus NAME --source DIR --host HOST --service-dir DIR
                      [--remote-dir DIR] [--lock-wait SECONDS] [--dry-run]

  --corpus NAME         the corpus to push
  --source DIR          the checkout or folder that holds the documentation
  --host HOST           where the service runs: [user@]host, as ssh knows it
  --service-dir DIR     its RAG_DIR there: the folder of corpora.json
  --remote-dir DIR      the mirror; may only be <service-dir>/corpus/<corpus>
  --lock-wait SECONDS   how long to wait for another indexer there (60)
  --dry-run             print the files that would be pushed, and change nothing
  -h, --help            this text

The mirror holds what is in scope at the source and nothing else: what was removed here is
removed there, however much it is. A scope that matches nothing here is refused.

DOCS_RAG names the docs-rag command on the host, where it is not found by itself.

exit codes: 0 pushed and indexed, 1 refused or failed, 2 usage, 75 pushed, but another
indexer was at work there all the time: its next run catches up; 255 where ssh fails
USAGE
}

# shellcheck source=client/remote.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/remote.sh"

source_dir="" remote_dir="" has_remote_dir=no lock_wait=60 dry_run=no
while [ $# -gt 0 ]; do
  case $1 in
    --corpus) need_value "$1" $#; corpus=$2; shift ;;
    --source) need_value "$1" $#; source_dir=$2; shift ;;
    --host) need_value "$1" $#; host=$2; shift ;;
    --service-dir) need_value "$1" $#; service_dir=$2; shift ;;
    --remote-dir) need_value "$1" $#; remote_dir=$2 has_remote_dir=yes; shift ;;
    --lock-wait) need_value "$1" $#; lock_wait=$2; shift ;;
    --dry-run) dry_run=yes ;;
    -h | --help) usage; exit 0 ;;
    *) fail 2 "unknown argument $1 ($program --help)" ;;
  esac
  shift
done

# -- guards: nothing has been sent or asked before they have passed --------------------

[ -n "$source_dir" ] || fail 2 "--source is missing ($program --help)"
check_place
if [ "$has_remote_dir" = yes ] && [ "$remote_dir" != "$service_dir/corpus/$corpus" ]; then
  fail 1 "refused: --remote-dir may only be $service_dir/corpus/$corpus, not $(quoted "$remote_dir")"
fi
[[ $lock_wait =~ ^[0-9]{1,5}$ ]] || fail 2 "--lock-wait must be a number of seconds: $lock_wait"
case $source_dir in
  *[[:cntrl:]]*) fail 2 "--source holds a line end or control character" ;;
esac
[ -d "$source_dir" ] || fail 2 "--source is no folder: $source_dir"
for tool in ssh rsync tar find; do
  command -v "$tool" >/dev/null 2>&1 || fail 1 "$tool is not on the PATH: install it"
done
# However it was spelled: from here on it is the folder we are in.
CDPATH='' cd -P -- "$source_dir" || fail 2 "--source cannot be entered: $source_dir"
source_dir=$(pwd -P)

work=$(mktemp -d "${TMPDIR:-/tmp}/docs-rag-sync.XXXXXX") || fail 1 "no temporary folder in ${TMPDIR:-/tmp}"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# -- the scope, as the service declares it now -----------------------------------------

code=0
docs_rag_on_service scope --mirror </dev/null >"$work/scope" || code=$?
if [ $code -ne 0 ]; then
  note "the scope could not be read from $host (see above); nothing was changed"
  exit $code
fi
IFS= read -r format <"$work/scope" || true
[ "$format" = "docs-rag-scope	1" ] ||
  fail 1 "$host speaks of the scope in another way than this client: use those of one version"

# Print the values of one key.
declared() {
  sed -n "s/^$1	//p" "$work/scope"
}
declared extension >"$work/extensions"
declared exclude_dir >"$work/excludes"

# -- the documents in scope, one a line in $work/files ---------------------------------

# Whether a name has one of the extensions, whatever their case.
is_wanted() {
  local name extension
  name=$(printf '%s' "$1" | tr '[:upper:]' '[:lower:]')
  while IFS= read -r extension; do
    case $name in *"$extension") return 0 ;; esac
  done <"$work/extensions"
  return 1
}

# Whether a directory, or one that it is in, is left out by an entry of exclude_dirs.
is_excluded() {
  local path=$1 entry
  while [ "$path" != . ] && [ -n "$path" ]; do
    while IFS= read -r entry; do
      if [ "$path" = "$entry" ] || [ "${path##*/}" = "$entry" ]; then return 0; fi
    done <"$work/excludes"
    case $path in */*) path=${path%/*} ;; *) path="" ;; esac
  done
  return 1
}

# Whether a directory is inside a hidden one, or in node_modules.
is_hidden() {
  case /$1/ in */.[!/]* | */node_modules/*) return 0 ;; esac
  return 1
}

# Print where a file or directory of the source really is, relative to the source; fail
# where that is outside.
real_path() {
  local path=./$1 target count=0 directory
  while [ -L "$path" ] && [ ! -d "$path" ]; do
    count=$((count + 1))
    [ $count -le 40 ] || return 1
    target=$(readlink "$path") || return 1
    case $target in /*) path=$target ;; *) path=${path%/*}/$target ;; esac
  done
  if [ -d "$path" ]; then
    directory=$(cd -P -- "$path" && pwd -P) || return 1
    path=""
  else
    directory=$(cd -P -- "${path%/*}/" && pwd -P) || return 1
    path=/${path##*/}
  fi
  case $directory$path in
    "$source_dir") printf '.' ;;
    "$source_dir"/*) path=$directory$path; printf '%s' "${path#"$source_dir"/}" ;;
    *) return 1 ;;
  esac
}

# What find passes over: hidden names, node_modules, directories that exclude_dirs names,
# and names that no line can hold. What it prints: documents and links.
pruned=(-name '.?*' -o -name '*[[:cntrl:]]*' -o -type d "(" -name node_modules)
while IFS= read -r entry; do
  pattern=$(printf '%s' "$entry" | sed 's/\[/[[]/g')
  pruned=("${pruned[@]}" -o -name "$pattern" -o -path "./$pattern")
done <"$work/excludes"
printed=(-type l)
while IFS= read -r extension; do
  printed=("${printed[@]}" -o -type f -iname "*$extension")
done <"$work/extensions"

# Print the documents and links below a directory, as ./path.
walk() {
  local top=./$1
  [ "$1" != . ] || top=.
  find -H "$top" -mindepth 1 "(" "${pruned[@]}" ")" ")" -prune -o "(" "${printed[@]}" ")" -print ||
    fail 1 "$source_dir/$1 cannot be read in full (see above); nothing was changed"
}

# Sort what walk found into files, and links to be looked at once all files are known.
sort_out() {
  local path
  while IFS= read -r path; do
    path=${path#./}
    if [ -L "$path" ]; then printf '%s\n' "$path" >&4; else printf '%s\n' "$path" >&3; fi
  done
}

# Follow a link: to a file, or to a directory whose files are not in scope already.
follow() {
  local link=$1 real directory walked
  if ! real=$(real_path "$link"); then
    [ -e "./$link" ] && note "not sent: $link: link that leaves the source"
    return 0
  fi
  if [ -d "./$link" ]; then directory=$real; else directory=$(dirname -- "$real"); fi
  if is_excluded "$directory" || is_hidden "$directory"; then return 0; fi
  if [ -f "./$link" ]; then
    # One file is one document, under the name it has without links.
    if is_wanted "$link" && ! grep -Fxq -- "$real" "$work/plain" "$work/linked"; then
      printf '%s\n' "$real" >>"$work/linked"
      printf '%s\n' "$link" >&3
    fi
    return 0
  fi
  if [ "$real" = . ] || is_excluded "$link"; then return 0; fi
  while IFS= read -r walked; do
    case $real/ in "$walked"/*) return 0 ;; esac
    [ "$walked" != . ] || return 0
  done <"$work/walked"
  case $source_dir/$(dirname -- "$link")/ in "$source_dir/$real"/*) return 0 ;; esac
  printf '%s\n' "$real" >>"$work/walked"
  walk "$link" | sed 's|^\./||' >&4
}

: >"$work/plain"
: >"$work/links"
: >"$work/walked"
: >"$work/linked"
exec 3>>"$work/plain" 4>>"$work/links"
declared root >"$work/roots"
while IFS= read -r root; do
  if ! [ -d "./$root" ]; then
    note "nothing here for the scope entry: root $root"
  elif ! real=$(real_path "$root"); then
    note "not sent: $root: link that leaves the source"
  elif is_excluded "$root" || is_excluded "$real"; then
    note "nothing here for the scope entry: root $root (it is in exclude_dirs)"
  else
    printf '%s\n' "$real" >>"$work/walked"
    walk "$root" >"$work/found"
    sort_out <"$work/found"
  fi
done <"$work/roots"
declared file >"$work/named"
while IFS= read -r file; do
  if ! [ -f "./$file" ] || ! is_wanted "$file"; then
    note "nothing here for the scope entry: file $file"
  elif is_excluded "$(dirname -- "$file")"; then
    note "nothing here for the scope entry: file $file (it is in exclude_dirs)"
  elif [ -L "./$file" ]; then
    printf '%s\n' "$file" >&4
  else
    printf '%s\n' "$file" >&3
  fi
done <"$work/named"
# The list grows while it is read, where a link leads to a folder that holds links.
while IFS= read -r link; do follow "$link"; done <"$work/links"
exec 3>&- 4>&-
sed 's|^\./||' "$work/plain" | sort -u >"$work/files"
count=$(wc -l <"$work/files" | tr -d ' ')
[ "$count" -gt 0 ] ||
  fail 1 "refused: the scope of $corpus matches nothing in $source_dir, and the mirror would be emptied; nothing was changed"

if [ "$dry_run" = yes ]; then
  cat "$work/files"
  note "dry run: $count files would be pushed from $source_dir to $host:$service_dir/corpus/$corpus"
  exit 0
fi

# -- the payload, its source, and the push ---------------------------------------------

mkdir "$work/payload"
sed 's|^|./|' "$work/files" | tr '\n' '\0' >"$work/names"
# Links become what they lead to; macOS would add files of its own without the setting.
COPYFILE_DISABLE=1 tar -chf "$work/payload.tar" --null -T "$work/names" ||
  fail 1 "the files in scope could not be read (see above); nothing was changed"
tar -xof "$work/payload.tar" -C "$work/payload" ||
  fail 1 "no room for a copy of the files in ${TMPDIR:-/tmp} (see above); nothing was changed"

# Print the source marker: what git says of the folder, if it is one of a checkout.
marker() {
  local commit="" dirty=null variable
  # Those of a hook that runs us mean another repository.
  for variable in ${!GIT_@}; do unset "$variable"; done
  git() { command git --no-optional-locks -c core.fsmonitor=false "$@" 2>/dev/null; }
  if commit=$(git rev-parse --verify HEAD) && [ -n "$(git ls-tree HEAD -- . | head -n 1)" ]; then
    if [ -n "$(git status --porcelain -- . | head -n 1)" ]; then dirty=true; else dirty=false; fi
  else
    commit=unknown
  fi
  printf '{"commit": "%s", "synced_at": "%s", "dirty": %s}\n' "$commit" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$dirty"
}
marker >"$work/marker"

# The place is entered by the shell over there, so rsync gets no path that any of its
# versions could read in another way.
place="$(enter_service_dir) && mkdir -p corpus/$corpus && cd corpus/$corpus && rsync"
rsync -rt --delete --itemize-changes --exclude=/.corpus_source.json \
  -e "ssh $ssh_options" --rsync-path="$place" "$work/payload/" "$host:./" ||
  fail 1 "rsync to $host failed (see above): the mirror may be half of it; run again"

# shellcheck disable=SC2016  # for the shell over there
on_service '
cat >"corpus/$1/.corpus_source.json.part" && mv -f "corpus/$1/.corpus_source.json.part" "corpus/$1/.corpus_source.json"
' "$corpus" <"$work/marker" || fail 1 "the source marker could not be written on $host (see above); run again"

# What was removed at the source was meant to be: the mirror is the scope as pushed.
waited=0
while :; do
  code=0
  docs_rag_on_service index --allow-shrink </dev/null || code=$?
  [ $code -eq 75 ] || break
  if [ "$waited" -ge "$lock_wait" ]; then
    fail 75 "pushed, but another indexer held the lock for $waited seconds: its next run there catches up"
  fi
  pause=$((lock_wait - waited))
  [ $pause -le 5 ] || pause=5
  sleep $pause
  waited=$((waited + pause))
done
[ $code -eq 0 ] || fail $code "pushed, but indexing on $host failed (see above): run again, or docs-rag index there"
note "pushed $count files to $host:$service_dir/corpus/$corpus"
