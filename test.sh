#!/usr/bin/env bash
# Everything that has to hold before a change lands: lint, types, shell, tests.
# Arguments go to pytest; without any, the tests run on all cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/environment.sh
source scripts/environment.sh

prepare_environment "dev, fastembed"
PATH="$venv/bin:$PATH"

step() { printf '\n== %s\n' "$1"; }

step "ruff"
ruff check .
ruff format --check .

step "mypy --strict"
mypy

step "shellcheck"
if command -v shellcheck >/dev/null 2>&1; then
  git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck -x
else
  echo "shellcheck is not on this machine: shell scripts were not checked"
fi

step "pytest"
python -m pytest "${@:--n=auto}"

if [ $# -eq 0 ]; then
  step "interop: other people's MCP clients and suites"
  tests/interop/run.sh python
fi
