"""Reads and normalizes the lines of a file with idutils; prints names a second and how many were accepted."""

import sys
import time

from idutils import is_doi, normalize_doi

with open(sys.argv[1], encoding="utf-8") as file:
    lines = file.read().split("\n")[:-1]

times = []
for _ in range(3):
    start = time.perf_counter()
    accepted = 0
    for line in lines:
        if is_doi(line):
            normalize_doi(line)
            accepted += 1
    times.append(time.perf_counter() - start)

print("idutils", round(len(lines) / sorted(times)[1]), accepted)
