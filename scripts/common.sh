# Sourced by the scripts beside it: strict mode, the repository's root as the working directory, and what they share.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# Models are kept here, outside git and outside build/.
cache=${LOCKSTEP_CACHE:-${XDG_CACHE_HOME:-${HOME:-$root}/.cache}/lockstep}
jobs=${LOCKSTEP_JOBS:-$(nproc)}

say() { printf '\n== %s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "scripts/${0##*/}" "$*" >&2
  exit 1
}

# A Python environment under build/ that has pip; prints the path of its python. Named NAME, default venv.
python_env() {
  local venv=$root/build/${1:-venv}
  [[ -x $venv/bin/pip ]] || python3 -m venv "$venv" >&2
  printf '%s\n' "$venv/bin/python"
}

# The same with the packages of a file of requirements, installed again when that file has changed: by default those of
# tests/oracle/requirements.txt, else oracle_env NAME FILE.
oracle_env() {
  local python name=${1:-venv} wanted=${2:-tests/oracle/requirements.txt}
  local installed=$root/build/$name/requirements.txt
  python=$(python_env "$name")
  if ! cmp -s "$wanted" "$installed"; then
    say "Python packages of $wanted"
    "$python" -m pip install --quiet --disable-pip-version-check --requirement "$wanted" >&2
    cp "$wanted" "$installed"
  fi
  printf '%s\n' "$python"
}
