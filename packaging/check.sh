#!/usr/bin/env bash
# Makes a release without publishing it, twice: in different directories, times
# and umasks, and compares. Then installs, uses and purges the deb, if this is
# Debian and root, and installs the npm packages. It takes minutes: `make
# release-check`, and a job of its own in CI. QUICK=1 builds for linux_amd64 only.
set -euo pipefail
cd "$(dirname "$0")/.."
export RIGWARD_VERSION=${RIGWARD_VERSION:-$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -1)}
RIGWARD_VERSION=${RIGWARD_VERSION:-0.0.0}
goreleaser=${GORELEASER:-go run github.com/goreleaser/goreleaser/v2@v2.14.3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
step() { printf '\n== %s\n' "$*"; }

# An archive has its programs in the order in which they were built, so one is
# built after the other.
make_release() { # directory, umask
  git clone -q . "$1"
  [ -z "${QUICK:-}" ] || sed -i -e 's/goos: \[.*/goos: [linux]/' -e 's/goarch: \[.*/goarch: [amd64]/' "$1/.goreleaser.yaml"
  (umask "$2" && cd "$1" && GOFLAGS=-mod=readonly $goreleaser release --snapshot --clean --skip=publish --parallelism 1 --timeout 3h >"$1.log" 2>&1) || { tail -40 "$1.log"; exit 1; }
}

step "two releases of $RIGWARD_VERSION"
make_release "$scratch/one" 022
sleep 2
mkdir -p "$scratch/a/much/deeper"
make_release "$scratch/a/much/deeper/two" 077
one=$scratch/one/dist two=$scratch/a/much/deeper/two/dist
diff "$one/SHA256SUMS" "$two/SHA256SUMS"
# What is published as a bare program lies in the directory of its build until then.
for dir in "$one"/rig-action_*/; do
  target=$(basename "$dir") && target=${target#rig-action_} # linux_amd64_v1
  for program in "$dir"rig-action*; do
    ln "$program" "$one/rig-action_${RIGWARD_VERSION}_${target%_v*}${program#"${dir}rig-action"}"
  done
done
(cd "$one" && sha256sum -c --quiet SHA256SUMS && wc -l SHA256SUMS)

step "the digests that the action has"
if [ -s action/SHA256SUMS ] && grep -q "rig-action_${RIGWARD_VERSION}_" action/SHA256SUMS; then
  grep ' rig-action_' "$one/SHA256SUMS" | sort -k 2 | diff - <(sort -k 2 action/SHA256SUMS)
else
  printf 'none, this is not the commit of that release\n'
fi

case $(uname -m) in x86_64) arch=amd64 ;; *) arch=arm64 ;; esac

step "an archive"
mkdir "$scratch/archive"
tar -xzf "$one/rigward_${RIGWARD_VERSION}_linux_$arch.tar.gz" -C "$scratch/archive"
for program in rig-hook rig-bundle rig-control rig-mcp; do
  test "$("$scratch/archive/$program" --version)" = "$program v$RIGWARD_VERSION"
done
test "$("$scratch/archive/rig-bridge" --version)" = "$RIGWARD_VERSION"
ls "$scratch/archive" "$scratch/archive/build/man"
# What is listed of it is in it, by name and digest.
for program in rig-hook rig-bridge rig-bundle rig-control rig-mcp; do
  grep -q "$(sha256sum <"$scratch/archive/$program" | cut -d ' ' -f 1)" "$one/rigward_${RIGWARD_VERSION}_linux_$arch.tar.gz.cdx.json"
done

step "the image"
if command -v umoci >/dev/null; then
  mkdir "$scratch/layout"
  tar -xf "$one/rigward_${RIGWARD_VERSION}_linux_oci.tar" -C "$scratch/layout"
  grep -q "\"architecture\":\"$arch\"" "$scratch"/layout/blobs/sha256/*
  if [ -n "${QUICK:-}" ]; then # umoci unpacks what has one platform
    umoci unpack --rootless --image "$scratch/layout:$RIGWARD_VERSION" "$scratch/container"
    for program in rig-hook rig-bridge rig-bundle rig-control rig-mcp; do
      cmp "$scratch/archive/$program" "$scratch/container/rootfs/usr/bin/$program"
    done
    "$scratch/container/rootfs/usr/bin/rig-hook" --version
  elif command -v skopeo >/dev/null; then
    for a in amd64 arm64; do
      skopeo copy -q --insecure-policy --override-os linux --override-arch $a "oci:$scratch/layout:$RIGWARD_VERSION" "oci:$scratch/layout-$a:1"
      umoci unpack --rootless --image "$scratch/layout-$a:1" "$scratch/container-$a"
    done
    cmp "$scratch/archive/rig-hook" "$scratch/container-$arch/rootfs/usr/bin/rig-hook"
    "$scratch/container-$arch/rootfs/usr/bin/rig-hook" --version
  else
    printf 'not unpacked: skopeo is not installed\n'
  fi
else
  printf 'not unpacked: umoci is not installed\n'
fi

step "the deb"
deb=$one/rigward_${RIGWARD_VERSION}_linux_$arch.deb
if [ "$(id -u)" = 0 ] && command -v dpkg >/dev/null && ! command -v rig-hook >/dev/null; then
  dpkg -i "$deb"
  test "$(rig-hook --version)" = "rig-hook v$RIGWARD_VERSION"
  rig-hook demo | tail -1
  id rigward
  test -f /lib/systemd/system/rigward-ship.service && test -f /usr/share/man/man1/rig-hook.1.gz -o -f /usr/share/man/man1/rig-hook.1
  dpkg --purge rigward
  test ! -e /usr/bin/rig-hook
  test ! -e /lib/systemd/system/rigward-ship.service
  if id rigward 2>/dev/null; then exit 1; fi
else
  printf 'not installed: that needs Debian, root, and no rig-hook on PATH\n'
fi

step "the npm packages"
mkdir -p "$scratch/programs/linux_$arch" "$scratch/app"
cp "$scratch/archive"/rig-* "$scratch/programs/linux_$arch/"
npm/pack.sh "$RIGWARD_VERSION" "$scratch/programs" "$scratch/packages"
(cd "$scratch/app" && npm init -y >/dev/null && npm install --offline --no-audit --no-fund --ignore-scripts "$scratch"/packages/*.tgz && test "$(npx --offline --no -- rig-bridge --version)" = "$RIGWARD_VERSION")
