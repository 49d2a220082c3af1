#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# prepare.sh: PostgreSQL's cluster is another user's than root, and it wants shared memory.
chown -R www-data /postgres && chmod 700 /postgres && chmod 1777 /tmp &&
    mkdir -p /dev/shm && mount -t tmpfs -o mode=1777 tmpfs /dev/shm
