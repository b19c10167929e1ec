#!/usr/bin/env bash
# Download the packages that mtkit needs beside torch and numpy, for a Linux machine without network.
# usage: bash tests/gpu/fetch_wheels.sh FOLDER PYTHON_VERSION
set -euo pipefail
folder=$1 version=$2
cd "$(dirname "$0")/../.."
python3 - >"$folder.txt" <<'PY'
import re, tomllib
for requirement in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]:
    if re.match(r"[\w-]+", requirement)[0] not in ("torch", "numpy"):
        print(requirement)
PY
platforms=()
for glibc in 2_17 2_27 2_28; do platforms+=(--platform "manylinux_${glibc}_x86_64"); done
# numpy comes along as a dependency of others; the machine has its own, which fits its torch
python3 -m pip download --only-binary=:all: --implementation cp --python-version "$version" "${platforms[@]}" \
    --platform manylinux2014_x86_64 --dest "$folder" --requirement "$folder.txt"
rm -f "$folder.txt" "$folder"/numpy-*.whl
