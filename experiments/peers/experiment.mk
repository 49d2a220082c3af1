# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The image of the tests, and the measurements at
# CPL 0 as the job measure.
IMAGE_peers = $(IMAGE_tools) lib/auto/measure.sh=programs/measure/measure.sh \
    jobs/measure=experiments/peers/guest/measure.sh
