#!/bin/sh
# Runs a program for 64-bit ARM under qemu, on one processor: qemu 7.2 lets a load pass an earlier store of another
# seq_cst atomic when threads run on several x86 processors, and a thread that waits then misses its wake-up. Which one
# of those that this process may use depends on its number, so that tests beside each other do not share one.
set -eu

# "0-2,5" as 0 1 2 5
allowed=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) print i }')
processor=$(echo "$allowed" | awk -v number=$$ '{ all[NR - 1] = $1 } END { print all[number % NR] }')
exec taskset -c "$processor" qemu-aarch64 -L /usr/aarch64-linux-gnu "$@"
