#!/usr/bin/env bash
# Gets the program of this action: that of its own release, whose SHA-256 is
# committed beside this file, from the runner's tool cache or from the release.
# What has another digest never runs. Where there is none, it says why on
# standard error, and the action builds the program from its own checkout.
#
# In: GITHUB_ACTION_PATH, RUNNER_TEMP, RUNNER_OS, RUNNER_ARCH, RUNNER_TOOL_CACHE
# (may be unset), INPUT_BUILD, INPUT_RELEASES. Out: $RUNNER_TEMP/rig-action, and
# there=true in GITHUB_OUTPUT.
set -u

program=$RUNNER_TEMP/rig-action

build() {
  rm -f "$program"
  printf 'rigward: %s; the action is built from its own source\n' "$1" >&2
  exit 0
}

digest() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi <"$1" | cut -d ' ' -f 1
}

# take copies a file to the program if it has the digest, as it is there.
take() {
  [ -f "$1" ] && cp "$1" "$program" && [ "$(digest "$program")" = "$sum" ] && chmod 755 "$program"
}

case ${INPUT_BUILD:-false} in
  true) build 'the input build is true' ;;
  false) ;;
  *) printf 'rigward: the input build is neither true nor false\n' >&2; exit 2 ;;
esac
case ${RUNNER_OS:-} in Linux) os=linux ;; macOS) os=darwin ;; Windows) os=windows ;; *) os= ;; esac
case ${RUNNER_ARCH:-} in X64) arch=amd64 ;; ARM64) arch=arm64 ;; *) arch= ;; esac
[ -n "$os" ] && [ -n "$arch" ] || build "no release is made for ${RUNNER_OS:-an unknown system} on ${RUNNER_ARCH:-an unknown machine}"

sum='' name=''
while read -r digits file; do
  case $file in
    rig-action_*_"${os}_$arch" | rig-action_*_"${os}_$arch".exe) sum=$digits name=$file ;;
  esac
done <"$GITHUB_ACTION_PATH/action/SHA256SUMS"
[ ${#sum} -eq 64 ] || build 'this commit is not one of a release'
version=${name#rig-action_}
version=${version%%_*}

cached=
if [ -n "${RUNNER_TOOL_CACHE:-}" ]; then
  cached=$RUNNER_TOOL_CACHE/rigward/$sum/$name
fi
if [ -z "$cached" ] || ! take "$cached"; then
  url=$INPUT_RELEASES/v$version/$name
  fetched=$RUNNER_TEMP/rig-action.fetched
  rm -f "$fetched"
  curl -fsSL --connect-timeout 10 --max-time 120 --retry 2 -o "$fetched" -- "$url" || build "$url cannot be fetched"
  take "$fetched" || build "what $url gives has not the SHA-256 $sum"
  # GitHub's own proof of who built it, where there are its program and a token.
  if [ -n "${GH_TOKEN:-}" ] && command -v gh >/dev/null; then
    gh attestation verify "$fetched" --repo rigward/rigward >&2 || build 'the attestation of the release does not verify'
  fi
  if [ -n "$cached" ]; then
    mkdir -p "${cached%/*}" && cp "$fetched" "$cached.$$" && mv -f "$cached.$$" "$cached" || printf 'rigward: the tool cache takes no program\n' >&2
  fi
  rm -f "$fetched"
fi
printf 'there=true\n' >>"$GITHUB_OUTPUT"
