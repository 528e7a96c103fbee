#!/bin/sh
# A purge of the deb takes the user with it; what an administrator wrote into
# /etc/rigward is theirs.
set -e
if [ "${1:-}" = purge ] && getent passwd rigward >/dev/null; then
  userdel rigward || true
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
