"""What plans lose when searches get less time.

usage: time_to_quality.py BIN SHORT LONG CASE...

Searches each case (a folder with model.pt2, inputs/ and outputs/) anew for SHORT and for LONG seconds,
with each of three seeds, on a farm of this machine that has learned nothing (BIN is where lfarm is),
and measures the plans in turns, with two threads. Prints a row of Markdown for each case: seconds of
the longest of the short submits, the geometric means of the plans' times in microseconds, how much of
the long searches' quality the short ones reached, and that of each seed.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SEEDS = 3
TURNS = 5
THREADS = "2"


class Plan:
    """Of one search, in a state directory of its own."""

    def __init__(self, binaries, state, case, seconds, seed):
        self.measure = [f"{binaries}/lfarm-bench", "models", str(case), "--state", state,
                        "--threads", THREADS, "--rounds", "3", "--json"]
        start = time.monotonic()
        subprocess.run([f"{binaries}/lfarm", "submit", str(case / "model.pt2"), "--device", "cpu",
                        "--state", state, "--time", str(seconds), "--budget", "1000000",
                        "--seed", str(seed)], check=True, capture_output=True)
        self.search_s = time.monotonic() - start
        self.us = []

    def turn(self):
        out = subprocess.run(self.measure, check=True, capture_output=True, text=True).stdout
        row = json.loads(out.splitlines()[0])
        if "notes" in row or row["lfarm_ms"] is None:
            raise SystemExit(f"not measured: {row}")
        self.us.append(row["lfarm_ms"] * 1e3)

    def median(self):
        return statistics.median(self.us)


def main(binaries, short, long, *cases):
    print("| model | s to submit | us | us of the long searches | quality | of each seed |\n"
          "|---|--:|--:|--:|--:|---|")
    for case in map(pathlib.Path, cases):
        with tempfile.TemporaryDirectory() as state:
            pairs = [[Plan(binaries, f"{state}/{seed}-{seconds}", case, seconds, seed)
                      for seconds in (short, long)] for seed in range(SEEDS)]
            for _ in range(TURNS):
                for pair in pairs:
                    for plan in pair:
                        plan.turn()
        mean = [statistics.geometric_mean(pair[k].median() for pair in pairs) for k in (0, 1)]
        ratios = ", ".join(f"{best.median() / brief.median():.2f}" for brief, best in pairs)
        longest = max(brief.search_s for brief, _ in pairs)
        print(f"| {case.name} | {longest:.0f} | {mean[0]:.3g} | {mean[1]:.3g} "
              f"| {mean[1] / mean[0]:.2f} | {ratios} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
