#!/bin/sh
# install-packages NAME...: Debian packages, and no trace of having installed them: two builds of one
# archive differ in nothing. From $MIRROR where that is set, else from the base image's own sources.
set -eu
export DEBIAN_FRONTEND=noninteractive
start=$(mktemp /run/start-XXXXXX)
if [ -n "${MIRROR:-}" ]; then
  rm -f /etc/apt/sources.list.d/*
  printf '%s\n' "$MIRROR" >/etc/apt/sources.list
fi
# An archive of a past day is signed for that day.
apt-get -q -o Acquire::Check-Valid-Until=false update
apt-get -q -y install --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/* \
  /var/lib/dpkg/*-old /var/log/* /tmp/* /usr/share/doc/* /usr/share/man/*
# Packages bring their files' times along. What is younger than this script was written by it; what
# the base image brought must not be touched, or it would be in this layer again.
find / -xdev -newer "$start" ! -path "$start" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
rm "$start"
touch -d "@${SOURCE_DATE_EPOCH:-0}" /run
