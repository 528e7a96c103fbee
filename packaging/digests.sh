#!/usr/bin/env bash
# Writes action/SHA256SUMS for the release of a version: the digests of
# rig-action on each platform, as the release will have it. Commit that as the
# last change before the tag; the first change of source after it empties the
# file again, or a test fails.
#
#   packaging/digests.sh 0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for os in linux darwin windows; do
  for arch in amd64 arm64; do
    exe=''
    [ "$os" != windows ] || exe=.exe
    CGO_ENABLED=0 GOOS=$os GOARCH=$arch GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/rigward/rigward/cmd/internal/version.release=rigward-release=$version;" \
      -o "$scratch/rig-action_${version}_${os}_$arch$exe" ./cmd/rig-action
  done
done
(cd "$scratch" && sha256sum rig-action_*) >action/SHA256SUMS
