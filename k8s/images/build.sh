#!/bin/sh
# build.sh [--tag TAG] [--prebuilt] [NAME=VALUE...] [IMAGE...]: builds lfarm-IMAGE:TAG for coordinator,
# worker-cpu, worker-cuda and client (default: all), with docker, podman or buildah, whichever works.
# NAME=VALUE are build arguments, which Dockerfile lists; SOURCE_DATE_EPOCH is the last commit's time.
set -eu
cd "$(dirname "$0")/../.."
tag=dev images='' arguments='' binaries=compiled
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
while [ $# -gt 0 ]; do
  case $1 in
    --tag) tag=$2 && shift ;;
    --prebuilt) binaries=prebuilt ;;
    *=*) arguments="$arguments --build-arg $1" ;;
    coordinator | worker-cpu | worker-cuda | client) images="$images $1" ;;
    *) echo "build.sh: '$1' is no image and no NAME=VALUE; see the head of this file" >&2 && exit 2 ;;
  esac
  shift
done

if docker info >/dev/null 2>&1; then
  builder='docker build'
elif podman info >/dev/null 2>&1; then
  builder='podman build --format oci --timestamp '$SOURCE_DATE_EPOCH
elif buildah info >/dev/null 2>&1; then
  # A runtime for containers is missing where buildah itself runs in one; it needs none. With layers
  # kept, the four images share one compilation.
  builder='buildah build --layers --isolation '${BUILDAH_ISOLATION:-chroot}' --format oci --timestamp '$SOURCE_DATE_EPOCH
else
  echo "build.sh: neither docker, podman nor buildah works here; install one, or start its daemon" >&2
  exit 4
fi

for image in ${images:-coordinator worker-cpu worker-cuda client}; do
  # Debian 12's buildah takes a stage whose name is an argument's default for an image.
  # Arguments are words; the list is meant to split.
  # shellcheck disable=SC2086
  $builder --file k8s/images/Dockerfile --target "$image" --tag "lfarm-$image:$tag" \
    --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" --build-arg BINARIES="$binaries" $arguments . </dev/null
done
