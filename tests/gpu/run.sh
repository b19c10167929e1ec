#!/usr/bin/env bash
# Run the checks on this machine's GPU with the packages of a folder of wheels; nothing is fetched.
# usage: bash tests/gpu/run.sh [FOLDER [OPTION...]]
set -euo pipefail
folder=${1:-}
cd "$(dirname "$0")/../.."
if [ -n "$folder" ]; then
    packages=$(mktemp -d)
    trap 'rm -rf "$packages"' EXIT
    python3 -m pip install --quiet --no-index --no-deps --no-compile --target "$packages" "$folder"/*.whl
    export PYTHONPATH=$packages${PYTHONPATH:+:$PYTHONPATH}
fi
PYTHONUNBUFFERED=1 python3 -m tests.gpu "${@:2}"
