#!/usr/bin/env bash
# Shows that ./run and ./test work for somebody who has just cloned on a fresh Debian 12: makes one in a folder with debootstrap,
# clones this repository's HEAD into it and runs both there. As root; needs debootstrap and the network; takes about half an
# hour and 3 GB. Not part of .ci/run.
#
#   tools/check_clean_debian.sh [FOLDER]     the Debian is kept in FOLDER; without one it is a temporary folder
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/shell.sh

port=8765

# The first URI of this machine's own Debian sources, in either format.
configured_mirror() {
  find /etc/apt -name '*.list' -o -name '*.sources' | xargs cat |
    sed -n -E 's/^(deb( \[[^]]*\])?|URIs:) +([^ ]+\/debian)\/?( .*)?$/\3/p' | sed -n 1p
}

# A minimal Debian in $root with this machine's package sources, certificates and name look-up.
make_debian() {
  local mirror
  mirror=$(configured_mirror)
  [[ $mirror ]] || fail "no Debian mirror in /etc/apt/sources.list*"
  say "debootstrap bookworm into $root"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror"
  cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
}

enter() { chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "${passed_on[@]}" "$@"; }

mount_kernel_folders() {
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --make-rslave "$root/dev"
}

leave() {
  local pids
  mapfile -t pids < <(jobs -p)
  ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
  wait || true
  umount "$root/proc" 2>/dev/null || true
  umount -R "$root/dev" 2>/dev/null || true
  [[ $kept ]] || rm -rf --one-file-system "$root"
}

# ./run in the clone, and the curl command that it prints, word for word.
check_run() {
  local log=$root/run.log curl_line answer
  say "./run -- --port $port"
  enter /clone/run -- --port "$port" > >(tee "$log") 2>&1 &
  until grep -q '^curl ' "$log" 2>/dev/null; do
    sleep 1
    jobs -r %% >/dev/null 2>&1 || fail "./run ended before the server was ready"
  done
  sleep 1
  curl_line=$(grep -A1 '^curl ' "$log")
  say "$curl_line"
  answer=$(enter bash -c "curl -sSf ${curl_line#curl }")
  echo "$answer"
  [[ $answer == *Paris* ]] || fail "expected an answer with Paris"
  pkill -TERM -f "^/clone/build/release/stoker serve demo --port $port"
  wait %1 || fail "the server did not end with exit code 0 after SIGTERM"
}

((EUID == 0)) || fail "must be root, for chroot"
command -v debootstrap >/dev/null || fail "needs the package debootstrap"
kept=${1-}
root=${kept:-$(mktemp -d)}
# What pip needs to know about this machine's registry, if its environment says it.
mapfile -t passed_on < <(env | grep -E '^(PIP_|SSL_CERT_FILE=|https?_proxy=|no_proxy=)' || true)
trap leave EXIT
[[ -x $root/bin/bash ]] || make_debian
mount_kernel_folders
rm -rf "$root/clone"
git clone --quiet --no-hardlinks . "$root/clone"
check_run
say "./test"
enter /clone/test
say "./test again: quick, for nothing changed"
time enter /clone/test --fast
