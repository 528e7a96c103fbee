#!/usr/bin/env bash
# Writes the manual pages and completions of the programs into build/, as the
# programs print them.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
rm -rf build/man build/completions build/bin
mkdir -p build/man build/completions/{bash,zsh,fish} build/bin
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o build/bin/ ./cmd/rig-hook ./cmd/rig-bridge ./cmd/rig-bundle ./cmd/rig-control ./cmd/rig-mcp
for program in build/bin/*; do
  name=$(basename "$program")
  "$program" man >"build/man/$name.1"
  "$program" completion bash >"build/completions/bash/$name"
  "$program" completion zsh >"build/completions/zsh/_$name"
  "$program" completion fish >"build/completions/fish/$name.fish"
done
rm -r build/bin
