#!/usr/bin/env bash
# Packs the programs of a release for npm: one package a platform, and rig-bridge,
# which depends on all of them optionally, so that npm installs the one that fits.
#
#   npm/pack.sh VERSION FROM TO
#
# FROM has a directory PLATFORM (linux_amd64, …) for each platform, with the
# programs in it; the packages are written into TO. Nothing is published.
set -euo pipefail
version=$1 from=$(cd "$2" && pwd) to=$(mkdir -p "$3" && cd "$3" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022

common="\"version\": \"$version\", \"license\": \"MIT\", \"repository\": \"github:rigward/rigward\""
programs=(rig-bridge rig-hook rig-bundle rig-control rig-mcp)
optional=''
for platform in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64 windows_arm64; do
  os=${platform%_*} cpu=${platform#*_} exe=''
  case $os in windows) os=win32 exe=.exe ;; esac
  case $cpu in amd64) cpu=x64 ;; esac
  optional+="${optional:+, }\"@rigward/$os-$cpu\": \"$version\""
  [ -d "$from/$platform" ] || continue
  dir=$scratch/$os-$cpu
  mkdir -p "$dir/bin"
  for program in "${programs[@]}"; do
    [ ! -f "$from/$platform/$program$exe" ] || install -m 755 "$from/$platform/$program$exe" "$dir/bin/"
  done
  cp "$here/../LICENSE" "$dir/"
  printf '{"name": "@rigward/%s", %s, "description": "The programs of rigward for %s on %s.", "os": ["%s"], "cpu": ["%s"], "files": ["bin"]}\n' \
    "$os-$cpu" "$common" "$os" "$cpu" "$os" "$cpu" >"$dir/package.json"
  (cd "$dir" && npm pack --silent --pack-destination "$to")
done

dir=$scratch/rig-bridge bin=''
mkdir -p "$dir/bin"
cp "$here/../LICENSE" "$here/README.md" "$dir/"
for program in "${programs[@]}"; do
  install -m 755 "$here/run.js" "$dir/bin/$program.js"
  bin+="${bin:+, }\"$program\": \"bin/$program.js\""
done
printf '{"name": "rig-bridge", %s, "description": "Messages between agents in a git repository, and the hooks that guard it.", "engines": {"node": ">=18"}, "files": ["bin"], "bin": {%s}, "optionalDependencies": {%s}}\n' \
  "$common" "$bin" "$optional" >"$dir/package.json"
(cd "$dir" && npm pack --silent --pack-destination "$to")
