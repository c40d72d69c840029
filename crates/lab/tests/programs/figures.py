#!/usr/bin/env python3
"""Compares programs under `ufutex run` with the kernel: figures.py PATH/TO/ufutex [rounds].

Modes are measured in turn. A ratio is of one round, and the median over the rounds is printed. Run it on an idle machine:
other work changes the figures, and the ratios of ping-pong most. CPU time varies least; programs whose threads wait for
each other have a row of CPU time too.
"""

import os
import re
import resource
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
        sys.exit(f"{command}: no {pattern} in its output")
    return float(found[1])


def cpu(command):
    """CPU time of a program in milliseconds."""
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    output(command)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime) * 1000


def started(command):
    """Milliseconds of one start, the mean of 20."""
    begin = time.monotonic()
    for _ in range(20):
        subprocess.run(command, check=True)
    return (time.monotonic() - begin) / 20 * 1000


# Two threads fill a queue of two elements, and two others empty it. Prints milliseconds.
QUEUE = """
import queue, threading, time
places = queue.Queue(2)
def fills():
    for i in range(5000): places.put(i)
def empties():
    for i in range(5000): places.get()
threads = [threading.Thread(target=body) for body in (fills, empties) * 2]
begin = time.monotonic()
for thread in threads: thread.start()
for thread in threads: thread.join()
print((time.monotonic() - begin) * 1000)
"""
LOOP = "for i in $(seq 200); do /bin/true; done"


def python():
    """The interpreter itself: the first one in PATH may be a script."""
    return os.path.realpath(sys.executable)


def looped(prefix):
    """Milliseconds of each program that a shell starts."""
    begin = time.monotonic()
    subprocess.run(prefix + ["sh", "-c", LOOP], check=True)
    return (time.monotonic() - begin) / 200 * 1000


def compare(name, unit, measure, better, combine=lambda mine, kernels: mine / kernels, modes=MODES):
    rounds = [{mode: measure(prefix) for mode, prefix in modes.items()} for _ in range(ROUNDS)]
    for mode in modes:
        median = statistics.median(each[mode] for each in rounds)
        against = [combine(each[mode], each["kernel"]) for each in rounds]
        spread = f"{min(against):.2f} to {max(against):.2f}"
        print(f"{name:22} {mode:12} {median:14.2f} {unit:6}  {better} {statistics.median(against):.2f} ({spread})", flush=True)


def compiled(name, folder):
    program = os.path.join(folder, name)
    subprocess.run(["cc", "-O2", "-pthread", f"{HERE}/c/{name}.c", "-o", program], check=True)
    return program


def lateness(folder):
    """Lateness of timer signals, as measured by the program `timer_lateness`."""
    program = compiled("timer_lateness", folder)
    modes = {"kernel": [], "run --timers": [UFUTEX, "run", "--timers", "--"]}
    rows = {mode: [] for mode in modes}
    for _ in range(ROUNDS):
        for mode, prefix in modes.items():
            rows[mode].append([float(number) for number in output(prefix + [program, "1000"]).split()])
    for column, (name, unit) in enumerate([("timer late, p50", "us"), ("timer late, p99", "us"), ("after the sleep", "%")]):
        rounds = [{mode: rows[mode][i][column] for mode in modes} for i in range(ROUNDS)]
        measured = iter([each[mode] for each in rounds for mode in modes])
        compare(name, unit, lambda _: next(measured), "later:", lambda mine, kernels: mine - kernels, modes)


with tempfile.TemporaryDirectory() as folder:
    ping_pong = compiled("ping_pong", folder)
    perf = ["perf", "bench", "futex"]
    compare("hash -t 2", "ops/s", lambda m: figure(r"Averaged (\d+)", m + perf + ["hash", "-t", "2", "-r", "1"]), "/ kernel's")
    compare("wake", "ms", lambda m: figure(r"Wokeup .* in ([\d.]+) ms \(", m + perf + ["wake", "-t", "128"]), "/ kernel's")
    compare("requeue", "ms", lambda m: figure(r"Requeued .* in ([\d.]+) ms \(", m + perf + ["requeue", "-t", "128"]), "/ kernel's")
    compare("mutex and condvar", "ns", lambda m: float(output(m + [ping_pong, "50000"])), "/ kernel's")
    compare("mutex ..., CPU time", "ms", lambda m: cpu(m + [ping_pong, "50000"]), "/ kernel's")
    compare("queue in Python", "ms", lambda m: float(output(m + [python(), "-c", QUEUE])), "/ kernel's")
    compare("queue, CPU time", "ms", lambda m: cpu(m + [python(), "-c", QUEUE]), "/ kernel's")
    lateness(folder)
    compare("true in a shell's loop", "ms", looped, "/ kernel's")
    compare("start of true", "ms", lambda m: started(m + ["/bin/true"]), "more than alone:", lambda mine, alone: mine - alone)
