#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# prepare.sh: PostgreSQL's cluster is another user's than root.
chown -R www-data /postgres && chmod 700 /postgres
