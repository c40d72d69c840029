#!/usr/bin/env python3
"""What `ufutex run` costs and gains, beside the kernel: figures.py PATH/TO/ufutex [rounds].

Rivals take turns; a ratio is of one round, and the median of all rounds is what counts. Run it on a machine with nothing
else to do: other work changes the figures, and of the ratios those of the ping-pong most.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

UFUTEX = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
HERE = os.path.dirname(os.path.abspath(__file__))
MODES = {"kernel": [], "run": [UFUTEX, "run", "--"], "run --trap": [UFUTEX, "run", "--trap", "--"]}


def output(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def figure(pattern, command):
    found = re.search(pattern, output(command))
    if not found:
        sys.exit(f"{command}: no {pattern} in what it says")
    return float(found[1])


def started(command):
    """Milliseconds of one start, as the mean of a few."""
    begin = time.monotonic()
    for _ in range(20):
        subprocess.run(command, check=True)
    return (time.monotonic() - begin) / 20 * 1000


def compare(name, unit, measure, better, combine=lambda mine, kernels: mine / kernels):
    rounds = [{mode: measure(prefix) for mode, prefix in MODES.items()} for _ in range(ROUNDS)]
    for mode in MODES:
        median = statistics.median(each[mode] for each in rounds)
        against = [combine(each[mode], each["kernel"]) for each in rounds]
        spread = f"{min(against):.2f} to {max(against):.2f}"
        print(f"{name:22} {mode:11} {median:14.2f} {unit:6}  {better} {statistics.median(against):.2f} ({spread})", flush=True)


with tempfile.TemporaryDirectory() as folder:
    ping_pong = os.path.join(folder, "ping_pong")
    subprocess.run(["cc", "-O2", "-pthread", f"{HERE}/c/ping_pong.c", "-o", ping_pong], check=True)
    perf = ["perf", "bench", "futex"]
    compare("hash -t 2", "ops/s", lambda m: figure(r"Averaged (\d+)", m + perf + ["hash", "-t", "2", "-r", "1"]), "/ kernel's")
    compare("wake", "ms", lambda m: figure(r"Wokeup .* in ([\d.]+) ms \(", m + perf + ["wake", "-t", "128"]), "/ kernel's")
    compare("requeue", "ms", lambda m: figure(r"Requeued .* in ([\d.]+) ms \(", m + perf + ["requeue", "-t", "128"]), "/ kernel's")
    compare("mutex and condvar", "ns", lambda m: float(output(m + [ping_pong, "50000"])), "/ kernel's")
    compare("start of true", "ms", lambda m: started(m + ["/bin/true"]), "more than alone:", lambda mine, alone: mine - alone)
