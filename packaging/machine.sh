# shellcheck shell=bash disable=SC2154,SC2034
# The long part of packaging/check: lintian, and Debian in a container with a systemd of its own, each release in turn.

# A Debian with systemd, kept for the next time.
base_is_there() {
    base=$tools/debian-$release.tar
    [ ! -f "$base" ] || return 0
    mkdir -p "$tools"
    # It makes a tar archive where the name ends in .tar.
    mmdebstrap --variant=apt --include=systemd,systemd-sysv,dbus,iproute2,iputils-ping,procps,man-db "$release" \
        "$tools/new-$release.tar" && mv "$tools/new-$release.tar" "$base"
}

lintian_finds_no_error() {
    lintian --fail-on error --display-level '>=warning' "$work"/out/*.deb 2>&1 | tee "$work/lintian"
    [ "${PIPESTATUS[0]}" -eq 0 ] && echo "note: $(grep -c '^W:' "$work/lintian") warnings"
}

two_hosts() {
    local link
    ip netns add "$near" && ip netns add "$far" || return 1
    for link in 1 2; do
        ip link add "p$link" netns "$near" type veth peer name "p$link" netns "$far" || return 1
        ip -n "$near" address add "10.7$link.0.1/24" dev "p$link"
        ip -n "$far" address add "10.7$link.0.2/24" dev "p$link"
        ip -n "$near" link set "p$link" up
        ip -n "$far" link set "p$link" up
    done
    ip -n "$near" link set lo up
    ip -n "$far" link set lo up
}

# Starts the container, with near's network as its own.
boots() {
    mkdir -p "$root" && tar -C "$root" -xf "$base" || return 1
    : >"$root/etc/machine-id"
    systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --boot --console=pipe \
        --machine="mptpkg$$" --network-namespace-path="/run/netns/$near" --capability=CAP_NET_ADMIN \
        </dev/null >"$work/boot" 2>&1 &
    machine=$!
    within 60 is_running || return 1
    # /dev/net/tun as udev makes it; it is the container's own.
    nsenter --target "$leader" --mount sh -c \
        '[ -e /dev/net/tun ] || { mkdir -p /dev/net && mknod /dev/net/tun c 10 200; }; chmod 666 /dev/net/tun'
}

is_running() {
    leader=$(pgrep -P "$machine" | head -n 1)
    [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qxE 'running|degraded'
}

# Runs a command in the container.
inside() { nsenter --target "$leader" --all -- "$@"; }

installs() {
    cp "$work"/out/*.deb "$root/root/"
    inside dpkg --install "/root/$(basename "$work"/out/mpt_*-1_amd64.deb)" &&
        inside id mpt && inside mpt-ctl --version && inside man --where mpt-ctl-path-set &&
        ! inside systemctl is-enabled mpt.service
}

# Writes the configuration of a tunnel: file, name, inner address, near or far (1 or 2), port, keys, control socket, and
# where its metrics are, if anywhere.
configuration() {
    local link
    {
        printf '[tunnel]\nname = "%s"\naddresses = ["%s"]\n' "$2" "$3"
        printf '[crypto]\nprivate_key_file = "%s"\npeer_public_key = "%s"\n' "$6" "$7"
        printf '[control]\nsocket = "%s"\n' "$8"
        [ -z "${9:-}" ] || printf '[metrics]\nlisten = "%s"\n' "$9"
        for link in 1 2; do
            printf '[[paths]]\nname = "p%s"\nlocal = "10.7%s.0.%s:%s"\nremote = "10.7%s.0.%s:%s"\n' \
                "$link" "$link" "$4" "$5" "$link" $((3 - $4)) "$5"
        done
    } >"$1"
}

runs() {
    local ctl=$binaries/mpt-ctl etc=$root/etc/mpt name a b
    mkdir -p "$work/far"
    for name in mpt0 mpt1; do
        (umask 077 && "$ctl" genkey >"$etc/$name.key" && "$ctl" genkey >"$work/far/$name.key")
        a=$("$ctl" pubkey <"$etc/$name.key") b=$("$ctl" pubkey <"$work/far/$name.key")
        configuration "$etc/$name.toml" "$name" "10.99.${name#mpt}.1/30" 1 "475${name#mpt}" "/etc/mpt/$name.key" "$b" "/run/mpt/$name.sock" \
            "$([ "$name" = mpt0 ] && echo 127.0.0.1:9754 || echo /run/mpt/metrics.sock)"
        configuration "$work/far/$name.toml" "$name" "10.99.${name#mpt}.2/30" 2 "475${name#mpt}" "$work/far/$name.key" "$a" "$work/far/$name.sock"
    done
    ip netns exec "$far" "$binaries/mpt-tund" --config "$work/far" >"$work/far/log" 2>&1 &
    peer=$!
    inside systemctl enable --now mpt || { inside journalctl --no-pager -u mpt | tail -n 20; return 1; }
    within 10 passes 0 && within 10 passes 1
}

# The unit's sandbox lets both be served, a port and a Unix socket.
serves_metrics() {
    local request='GET /metrics HTTP/1.0\r\n\r\n'
    inside bash -c "exec 3<>/dev/tcp/127.0.0.1/9754 && printf '$request' >&3 && cat <&3" >"$work/metrics" &&
        grep -q '^mpt_tunnel_running{tunnel="mpt0"} 1$' "$work/metrics" || return 1
    inside perl -MIO::Socket::UNIX -e \
        "\$s = IO::Socket::UNIX->new('/run/mpt/metrics.sock') or die \$!; print \$s \"$request\"; \$s->flush; print <\$s>" \
        >"$work/metrics" && grep -q '^mpt_tunnel_running{tunnel="mpt1"} 1$' "$work/metrics"
}

# Whether packets go through the tunnel of this number.
passes() { inside ping -q -c 2 -i 0.2 -W 1 "10.99.$1.2" >/dev/null; }

says_how_it_does() {
    within 15 shows 'Status: "mpt0: ok, 2 of 2 paths are up; mpt1: ok, 2 of 2 paths are up"' mpt &&
        [ "$(inside systemctl show --property=Type --value mpt)" = notify ] || return 1
    ip -n "$near" link set p1 down
    within 15 shows 'mpt0: degraded, 1 of 2 paths are up: ' mpt
    local status=$?
    ip -n "$near" link set p1 up
    within 15 shows 'Status: "mpt0: ok, 2 of 2 paths are up' mpt && return $status
}

shows() { inside systemctl status --no-pager --lines=0 --full "$2" | grep -F "$1"; }

# With the file of docs/installing.md, systemd-networkd leaves the interface alone; without it, too, but that is not promised.
networkd_leaves_it_alone() {
    local place=$root/etc/systemd/network
    mkdir -p "$place"
    sed -n '/^\[Match\]/,/^```/{/^```/!p}' docs/installing.md >"$place/10-mpt.network"
    grep -q '^Unmanaged=yes' "$place/10-mpt.network" || { echo "docs/installing.md has no such file"; return 1; }
    inside systemctl start systemd-networkd && within 10 is_unmanaged && passes 0 &&
        inside systemctl restart mpt && within 10 passes 0 && is_unmanaged
    local status=$?
    inside systemctl stop systemd-networkd.socket systemd-networkd
    return $status
}

is_unmanaged() { inside networkctl --no-pager --no-legend list mpt0 | grep -w unmanaged; }

# Packets every 20 ms meanwhile: the longest time without an answer. What goes over a link is captured.
upgrades_with_the_tunnel_up() {
    local before gap status
    ip netns exec "$near" tcpdump -q -n -U -i p1 -w "$work/upgrade.pcap" udp 2>/dev/null &
    beside=$!
    before=$(inside systemctl show --property=MainPID --value mpt)
    inside ping -D -n -i 0.02 -w 12 10.99.0.2 >"$work/pings" &
    local pinging=$!
    sleep 3
    inside dpkg --install "/root/$(basename "$work"/out/mpt_*-2_amd64.deb)"
    status=$?
    wait "$pinging"
    end_beside
    [ $status -eq 0 ] || return 1
    [ "$(inside systemctl show --property=MainPID --value mpt)" != "$before" ] || { echo "it was not started again"; return 1; }
    gap=$(awk -F '[][]' '/bytes from/ { if (last && $2 - last > most) most = $2 - last; last = $2 } END { printf "%.3f", most }' "$work/pings")
    echo "note: nothing for $gap s"
    awk -v gap="$gap" 'BEGIN { exit !(gap > 0 && gap <= 1.0) }'
}

# A capture of real packets: both kinds of handshake messages, and both of sealed packets.
dissector_reads_it() {
    local info
    tshark -X lua_script:packaging/wireshark/mpt.lua -d udp.port==4750,gre -d udp.port==4751,gre -r "$work/upgrade.pcap" -T fields -e _ws.col.Info 2>"$work/said" |
        sed 's/, .*//' | sort | uniq -c >"$work/infos"
    cat "$work/infos"
    ! grep -iE 'lua error|\.lua:[0-9]' "$work/infos" "$work/said" || return 1
    for info in Initiation Response 'Sealed data' 'Sealed control message'; do
        grep -q "$info\$" "$work/infos" || { echo "none of it: $info"; return 1; }
    done
}

reload_refuses_a_mistake() {
    local file=$root/etc/mpt/mpt1.toml
    cp "$file" "$work/kept"
    echo 'nonsense = 1' >>"$file"
    ! inside systemctl reload mpt || return 1
    cp "$work/kept" "$file"
    inside systemctl reload mpt && passes 0 && passes 1
}

is_started_again_when_it_hangs() {
    local id
    mkdir -p "$root/etc/systemd/system/mpt.service.d"
    printf '[Service]\nWatchdogSec=3s\nRestartSec=100ms\n' >"$root/etc/systemd/system/mpt.service.d/short.conf"
    inside systemctl daemon-reload && inside systemctl restart mpt && within 10 passes 0 || return 1
    id=$(inside systemctl show --property=MainPID --value mpt)
    inside kill -STOP "$id"
    within 20 another_runs "$id" && within 10 passes 0 &&
        inside journalctl --no-pager -u mpt | grep -i 'watchdog'
}

another_runs() {
    local now
    now=$(inside systemctl show --property=MainPID --value mpt)
    [ "$now" != 0 ] && [ "$now" != "$1" ]
}

each_has_a_unit() {
    inside systemctl start mpt@mpt0 mpt@mpt1 && ! inside systemctl is-active mpt || return 1
    within 10 passes 0 && within 10 passes 1 && within 10 shows 'Status: "mpt1: ok, 2 of 2 paths are up"' mpt@mpt1 || return 1
    inside systemctl stop mpt@mpt1 && passes 0 && inside mpt-ctl -t mpt0 paths && ! passes 1 || return 1
    inside systemctl start mpt && ! inside systemctl is-active mpt@mpt0 && within 10 passes 0 && within 10 passes 1
}

purges() {
    inside dpkg --remove mpt && ! inside ip link show mpt0 || return 1
    inside test -e /etc/mpt/mpt0.toml || { echo "remove took the configuration"; return 1; }
    inside dpkg --purge mpt || return 1
    local left
    left=$(inside find /etc /usr /run /var/lib -xdev \( -name 'mpt*' -o -name '_mpt*' \) -not -name 'mpt.service.d' -not -path '/var/lib/dpkg/*' \
        -not -path '/usr/lib/x86_64-linux-gnu/*')
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}

try "a second package, for the upgrade" deb_is_made 2
try "lintian finds no error" lintian_finds_no_error
for release in ${MPT_DEBIAN:-bookworm trixie}; do
    root=$work/$release
    try "$release: it is there" base_is_there
    try "$release: two hosts with two links" two_hosts
    try "$release: systemd runs in a container" boots
    if [ -n "$leader" ]; then
        try "$release: it installs, and starts nothing by itself" installs
        try "$release: it runs, sealed, over two links" runs
        try "$release: metrics are served from the unit's sandbox" serves_metrics
        try "$release: systemctl status shows the verdict" says_how_it_does
        try "$release: an upgrade with the tunnel up" upgrades_with_the_tunnel_up
        try "$release: the dissector reads a capture of it" dissector_reads_it
        try "$release: systemd-networkd leaves it alone" networkd_leaves_it_alone
        try "$release: a reload with a mistake is refused and changes nothing" reload_refuses_a_mistake
        try "$release: what hangs is started again" is_started_again_when_it_hangs
        try "$release: mpt@NAME runs one tunnel apart from the others" each_has_a_unit
        try "$release: it is removed and purged" purges
    fi
    put_away
    rm -rf "$root" "$work/far"
done
