# SPDX-License-Identifier: BSD-2-Clause
# chen_published.py: figures that the thesis has published of fuzzing with branch records. Data
# only. Table 4.8: system calls that Agamotto executed in three hours, without and with LBR, and how
# many per cent fewer, as printed. By its own counts rsi has 20.9, and the average is 22.5.
TABLE_4_8 = {
    "ar5523": (7561, 5624, 25.6),
    "btusb": (8077, 5889, 27.1),
    "go7007": (7731, 6243, 19.2),
    "pn533": (7118, 5774, 18.9),
    "rsi": (7046, 5571, 20.1),
    "si470x": (7452, 5754, 22.8),
    "usx2y": (7226, 5587, 22.7),
}
AVERAGE = 22.3  # percent less, as printed
