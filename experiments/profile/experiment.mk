# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The image of the tests, and the job sampling.
IMAGE_profile = $(IMAGE_tools) traced=$(BUILD)/programs/traced jobs/sampling=experiments/profile/guest/sampling.sh
