#!/bin/sh
# install-packages NAME...: Debian packages, and no trace of having installed them: two builds of one
# archive differ in nothing. From $MIRROR where that is set, else from the base image's own sources.
set -eu
export DEBIAN_FRONTEND=noninteractive
if [ -n "${MIRROR:-}" ]; then
  rm -f /etc/apt/sources.list.d/*
  printf '%s\n' "$MIRROR" >/etc/apt/sources.list
fi
# An archive of a past day is signed for that day.
apt-get -q -o Acquire::Check-Valid-Until=false update
apt-get -q -y install --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/* \
  /var/lib/dpkg/*-old /var/log/* /tmp/* /usr/share/doc/* /usr/share/man/*
find / -xdev -newermt "@${SOURCE_DATE_EPOCH:-0}" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} + \
  2>/dev/null || true
