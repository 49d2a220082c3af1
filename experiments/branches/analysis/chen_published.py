# SPDX-License-Identifier: BSD-2-Clause
# chen_published.py: figures that the thesis has published of fuzzing with branch records. Data
# only. Table 4.8: system calls that Agamotto executed in three hours, without and with LBR.
TABLE_4_8 = {
    "ar5523": (7561, 5624),
    "btusb": (8077, 5889),
    "go7007": (7731, 6243),
    "pn533": (7118, 5774),
    "rsi": (7046, 5571),
    "si470x": (7452, 5754),
    "usx2y": (7226, 5587),
}
AVERAGE = 22.3  # percent less, as printed
