#!/bin/sh
# Runs a program for 64-bit ARM under qemu, on one processor: qemu 7.2 lets a load pass an earlier store of another
# seq_cst atomic when threads run on several x86 processors, and a thread that waits then misses its wake-up.
set -eu

processor=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
exec taskset -c "$processor" qemu-aarch64 -L /usr/aarch64-linux-gnu "$@"
