# shellcheck shell=bash disable=SC2154,SC2034
# The long part of packaging/check, of what is made of static programs: the tarball, and the image.

# With the host's own program for the pages.
mkdir -p "$work/static"
cp "$static/mpt-tund" "$static/mpt-ctl" "$binaries/mpt-pages" "$work/static/"

made() { ./package "$1" --binaries "$work/static" --out "$work/$2"; }

same_again() {
    local file
    file=$(made "$1" again | tail -n 1)
    cmp "$work/out/${file##*/}" "$file"
}

# Where there is nothing but the tarball, they run.
programs_need_nothing() {
    local file
    tar -C "$work" -xzf "$work"/out/mpt-*.tar.gz && mv "$work"/mpt-*-linux-amd64 "$work/unpacked" || return 1
    for file in mpt-tund mpt-ctl; do
        ldd "$work/unpacked/sbin/$file" 2>&1 | grep -E 'statically linked|not a dynamic executable' || return 1
        chroot "$work/unpacked" "/sbin/$file" --version || return 1
    done
    grep -q '^musl .*: MIT' "$work/unpacked/share/doc/mpt/THIRD-PARTY" || return 1
    chroot "$work/unpacked" /sbin/mpt-tund --check --config /share/doc/mpt/examples/site-a.toml
}

# Runs in $root the commands of INSTALL from the line with $1 on up to the one with $2, as they stand there.
runs_commands() {
    { echo "cd /root/mpt" && sed -n "/$1/,/$2/s/^    //p" packaging/INSTALL; } >"$root/root/commands"
    # systemd does not run there, and systemctl is to know it.
    SYSTEMD_OFFLINE=1 chroot "$root" sh -e -x /root/commands
}

install_text_holds() {
    local left
    root=$work/installed
    mkdir -p "$root" && tar -C "$root" -xf "$tools/debian-bookworm.tar" && cp -R "$work/unpacked" "$root/root/mpt" || return 1
    runs_commands '^To try' '^To install' && runs_commands '^To install' '^Configurations' || return 1
    SYSTEMD_OFFLINE=1 chroot "$root" sh -e -c 'mpt-ctl --version; id mpt; test -d /etc/mpt; man --where mpt-ctl-path-set; systemctl enable mpt' || return 1
    runs_commands '^To remove' nothing || return 1
    left=$(find "$root/etc" "$root/usr/local" -name '*mpt-tund*' -o -name '*mpt-ctl*' -o -name 'mpt.*' -o -name 'mpt@*')
    [ -z "$left" ] || { echo "left: $left"; return 1; }
    rm -rf "$root"
}

# Keys and configurations of both ends, for the addresses of two_hosts: into $1/a and $1/b, control sockets into $2.
two_ends() {
    local ctl=$work/unpacked/sbin/mpt-ctl a b
    mkdir -p "$1/a" "$1/b"
    (umask 077 && "$ctl" genkey >"$1/a/key" && "$ctl" genkey >"$1/b/key") || return 1
    a=$("$ctl" pubkey <"$1/a/key") b=$("$ctl" pubkey <"$1/b/key")
    configuration "$1/a/mpt0.toml" mpt0 10.99.0.1/30 1 4754 key "$b" "$2/a.sock"
    configuration "$1/b/mpt0.toml" mpt0 10.99.0.2/30 2 4754 key "$a" "$2/b.sock"
}

# Packets small and large.
answers() { "$@" ping -q -c 5 -i 0.2 -W 1 10.99.0.2 && "$@" ping -q -c 5 -i 0.2 -W 1 -s 20000 10.99.0.2; }

tunnel_of_its_programs() {
    local daemon=$work/unpacked/sbin/mpt-tund status
    two_hosts && two_ends "$work/ends" "$work/ends" || return 1
    ip netns exec "$far" "$daemon" --config "$work/ends/b" >"$work/ends/b.log" 2>&1 &
    peer=$!
    ip netns exec "$near" "$daemon" --config "$work/ends/a" >"$work/ends/a.log" 2>&1 &
    beside=$!
    within 10 answers ip netns exec "$near" && within 10 all_is_well "$work/unpacked/sbin/mpt-ctl" --socket "$work/ends/a.sock"
    status=$?
    [ $status -eq 0 ] || cat "$work"/ends/*.log
    put_away
    return $status
}

# $@: mpt-ctl. Both paths are up.
all_is_well() { "$@" status | grep -F 'All is well: 2 paths up.'; }

image_says_what_it_is() {
    local label
    tar -xOf "$work"/out/*-image.tar | grep -a -o '"org.opencontainers.image.[a-z]*":"[^"]*"' | tee "$work/labels"
    for label in title description version revision created licenses; do
        grep -q "image.$label\":\"." "$work/labels" || { echo "no label $label"; return 1; }
    done
    [ "$(tar -xOf "$work"/out/*-image.tar | grep -a -o '"Entrypoint":.*"Cmd":\[[^]]*\]' | head -n 1 | sed 's/"Volumes.*//')" = \
        '"Entrypoint":["/usr/sbin/mpt-tund"],"Cmd":["--config","/etc/mpt"]' ]
}

# Two containers of the image, of a user who is not root, have a tunnel between them. The user is in no file of this
# host, but in those of a mount namespace; the links between the containers are laid from outside.
rootless_containers() {
    local user=$work/user id=47540 file status=1 ends=()
    chmod 711 "$work"
    mkdir -p "$user/home" "$user/run"
    two_ends "$user/home" /run/mpt || return 1
    cp "$work"/out/*-image.tar "$user/home/image.tar"
    for file in passwd group; do cp "/etc/$file" "$user/$file"; done
    echo "mptimage:x:$id:$id::$user/home:/bin/sh" >>"$user/passwd"
    echo "mptimage:x:$id:" >>"$user/group"
    echo mptimage:1000000:65536 | tee "$user/subuid" >"$user/subgid"
    # As udev makes it: for everybody.
    mknod -m 666 "$user/tun" c 10 200
    cat >"$user/outside" <<'OUTSIDE'
set -e
user=$1 id=$2
mount --make-rshared /
for file in passwd group subuid subgid; do mount --bind "$user/$file" "/etc/$file"; done
mount --bind "$user/tun" /dev/net/tun
# crun knows no mixture of cgroups of both versions.
if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
    umount -R /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
fi
cd "$user/home"
exec setpriv --reuid "$id" --regid "$id" --clear-groups --inh-caps=-all \
    env -i PATH="$PATH" HOME="$user/home" XDG_RUNTIME_DIR="$user/run" USER=mptimage sh -e "$user/inside"
OUTSIDE
    cat >"$user/inside" <<'INSIDE'
podman="podman --cgroup-manager cgroupfs --storage-driver vfs"
clean_up() {
    $podman rm --force --all --time 2
    kill "$(cat "$XDG_RUNTIME_DIR/libpod/tmp/pause.pid")"
}
trap clean_up EXIT
$podman load --input image.tar
image=$($podman images --format '{{.Repository}}:{{.Tag}}' | head -n 1)
for end in a b; do
    $podman run --detach --name "$end" --network none --cgroups disabled --cap-drop all --cap-add NET_ADMIN \
        --device /dev/net/tun --volume "$PWD/$end:/etc/mpt:ro" "$image"
    $podman inspect --format '{{.State.Pid}}' "$end" >"$end.pid"
done
touch started
for _ in $(seq 300); do
    [ ! -e laid ] || break
    sleep 0.1
done
for _ in $(seq 50); do
    $podman exec a mpt-ctl --socket /run/mpt/a.sock status >status 2>&1 || true
    ! grep -F 'All is well: 2 paths up.' status || break
    sleep 0.2
done
cat status
$podman logs a
grep -qF 'All is well: 2 paths up.' status
INSIDE
    chown -R "$id:$id" "$user/home" "$user/run"
    chmod 700 "$user/run"
    unshare --mount bash "$user/outside" "$user" "$id" >"$user/log" 2>&1 &
    peer=$!
    if within 60 test -e "$user/home/started" && lay_links "$(cat "$user/home/a.pid")" "$(cat "$user/home/b.pid")" &&
        within 10 answers nsenter --target "$(cat "$user/home/a.pid")" --net; then
        status=0
    fi
    [ "$(stat -c %u "/proc/$(cat "$user/home/a.pid")")" -eq "$id" ] || { echo "the container is another user's"; status=1; }
    touch "$user/home/laid"
    wait "$peer" || status=1
    peer=''
    [ $status -eq 0 ] || cat "$user/log"
    return $status
}

# Two links between two processes' networks.
lay_links() {
    local link pid end
    for link in 1 2; do
        ip link add "p$link" netns "$1" type veth peer name "p$link" netns "$2" || return 1
        end=1
        for pid in "$1" "$2"; do
            nsenter --target "$pid" --net ip address add "10.7$link.0.$end/24" dev "p$link" || return 1
            nsenter --target "$pid" --net ip link set "p$link" up
            end=2
        done
    done
}

try "a tarball is made" made tar out
try "the same bytes again" same_again tar
try "its programs need nothing of a host" programs_need_nothing
if [ -f "$tools/debian-bookworm.tar" ]; then
    try "INSTALL installs and removes it, on Debian 12" install_text_holds
fi
try "a tunnel of its programs" tunnel_of_its_programs
try "an image is made" made image out
try "the same bytes again, of the image" same_again image
try "the image says what it is" image_says_what_it_is
try "two containers without root have a tunnel" rootless_containers
