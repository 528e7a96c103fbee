#!/bin/sh
# The user as whom the unit runs; it owns nothing and cannot log in.
set -e
if ! getent passwd rigward >/dev/null; then
  if command -v useradd >/dev/null; then
    useradd --system --user-group --no-create-home --home-dir /var/lib/rigward --shell /usr/sbin/nologin rigward
  else # BusyBox
    addgroup -S rigward 2>/dev/null || true
    adduser -S -D -H -h /var/lib/rigward -s /sbin/nologin -G rigward rigward
  fi
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
