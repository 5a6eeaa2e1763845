# shellcheck shell=bash disable=SC2154
# The long part of packaging/check, of the package that is cross-compiled for arm64: made, looked at, and its programs run
# under emulation. A tunnel is not to be had so: the emulation knows neither SO_RXQ_OVFL nor all of netlink.

# With the host's own program for the pages.
mkdir -p "$work/arm64/programs"
cp "$arm64/mpt-tund" "$arm64/mpt-ctl" "$binaries/mpt-pages" "$work/arm64/programs/"

arm64_deb_is_made() {
    ./package deb --arch arm64 --binaries "$work/arm64/programs" --out "$work/arm64" &&
        [ "$(dpkg-deb --field "$work"/arm64/mpt_*_arm64.deb Architecture)" = arm64 ]
}

arm64_lintian_finds_no_error() { lintian --fail-on error "$work"/arm64/*.deb; }

emulated() { qemu-aarch64-static -L /usr/aarch64-linux-gnu "$work/arm64/root/usr/sbin/$1" "${@:2}"; }

arm64_programs_run() {
    local version key
    version=$(dpkg-deb --field "$work"/arm64/mpt_*_arm64.deb Version)
    dpkg-deb --extract "$work"/arm64/mpt_*_arm64.deb "$work/arm64/root" || return 1
    [ "$(emulated mpt-tund --version)" = "mpt-tund ${version%-*}" ] && [ "$(emulated mpt-ctl --version)" = "mpt-ctl ${version%-*}" ] || return 1
    emulated mpt-tund --check --config conf/site-a.toml | grep -x 'mpt0: ok (conf/site-a.toml, 2 paths)' || return 1
    # A key pair is the same on either processor.
    key=$(emulated mpt-ctl genkey) && [ -n "$key" ] &&
        [ "$(emulated mpt-ctl pubkey <<<"$key")" = "$("$binaries/mpt-ctl" pubkey <<<"$key")" ]
}

try "arm64: a package is made" arm64_deb_is_made
try "arm64: lintian finds no error" arm64_lintian_finds_no_error
try "arm64: its programs run, under emulation" arm64_programs_run
