# shellcheck shell=bash
# For who builds for others than this host: Debian's cross compilers.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# tun-tap's C takes the kernel's headers, which musl-gcc leaves out.
export CC_x86_64_unknown_linux_musl="musl-gcc -idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu"
