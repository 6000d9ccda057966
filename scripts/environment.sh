# shellcheck shell=bash
# Sourced by demo.sh and test.sh: one virtual environment, made once, kept up to date.
# Needs bash, Python 3.11 or newer with venv, and a package registry.

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

# Print the first Python that is new enough; PYTHON names one to use.
find_python() {
  local candidate found=""
  if [ -n "${PYTHON:-}" ]; then
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
      fail "PYTHON is $PYTHON, which is no Python 3.11 or newer. Name another, or unset it."
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    found="$found $candidate"
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  if [ -z "$found" ]; then
    fail "no Python found. Install Python 3.11 or newer, or name one: PYTHON=/path/to/python $0"
  fi
  fail "Python 3.11 or newer is needed; found only:$found. Name a newer one: PYTHON=/path/to/python $0"
}

# What is installed depends on these files and on nothing else.
source_digest() {
  "$1" - <<'PY'
import hashlib, pathlib, sys

digest = hashlib.sha256(sys.version.encode())
files = ["pyproject.toml", "constraints.txt", "README.md", *sorted(map(str, pathlib.Path("docs_rag").rglob("*.py")))]
for name in files:
    digest.update(name.encode() + b"\0" + pathlib.Path(name).read_bytes())
print(digest.hexdigest())
PY
}

# Make .venv and install the project with the extras given, unless it is there already.
# After it, "$venv/bin" holds docs-rag and python.
prepare_environment() {
  local extras=$1 python digest stamp
  venv="$PWD/.venv"
  python=$(find_python) || exit 1
  if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    printf 'making .venv with %s\n' "$("$python" --version 2>&1)"
    if ! "$python" -m venv --clear "$venv" >/dev/null 2>&1; then
      rm -rf "$venv"
      fail "$python cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv"
    fi
  fi
  digest=$(source_digest "$venv/bin/python") || exit 1
  stamp="$venv/.docs-rag-installed"
  case "$(cat "$stamp" 2>/dev/null)" in
    "$digest:$extras") return ;;
    "$digest:"*) [ -n "$extras" ] || return 0 ;; # more than wanted is enough
  esac
  printf 'installing docs-rag%s into .venv\n' "${extras:+ with $extras}"
  rm -f "$stamp"
  if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --constraint constraints.txt ".${extras:+[${extras// /}]}"; then
    fail "the packages could not be installed (see above). Is a package registry reachable?"
  fi
  printf '%s' "$digest:$extras" >"$stamp"
}
