#!/bin/sh
# deb says "remove", rpm 0 for the last one that goes, apk nothing.
set -e
case "${1:-0}" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now rigward-ship.service || true
    fi
    ;;
esac
