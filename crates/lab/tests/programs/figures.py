#!/usr/bin/env python3
"""Compares programs under `ufutex run` with the kernel: figures.py PATH/TO/ufutex [rounds [hand-offs|locks]].

With `hand-offs`: programs whose threads wait for each other, on the kernel, with `--trap`, and with `--trap --spin`. With `locks`: the
same, with `run --trap` and by `ufutex locks`. What cannot be built here is left out.

Modes are measured in turn. A ratio is to the first mode in the same round, and the median over the rounds is printed. Run it on an idle machine:
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


def compare(name, unit, measure, better, combine=lambda mine, firsts: mine / firsts, modes=MODES):
    rounds = [{mode: measure(prefix) for mode, prefix in modes.items()} for _ in range(ROUNDS)]
    for mode in modes:
        median = statistics.median(each[mode] for each in rounds)
        against = [combine(each[mode], each[next(iter(modes))]) for each in rounds]
        spread = f"{min(against):.2f} to {max(against):.2f}"
        print(f"{name:32} {mode:12} {median:14.2f} {unit:6}  {better} {statistics.median(against):.2f} ({spread})", flush=True)


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


# Programs whose threads wait for each other, with what each language or library has for that.
JAVA = """
import java.util.concurrent.SynchronousQueue;
public class Hands {
    public static void main(String[] args) throws Exception {
        var there = new SynchronousQueue<Integer>();
        var back = new SynchronousQueue<Integer>();
        var other = new Thread(() -> {
            try { for (int i = 0; i < 20000; i++) back.put(there.take()); } catch (InterruptedException e) { throw new AssertionError(e); }
        });
        other.start();
        for (int i = 0; i < 20000; i++) { there.put(i); back.take(); }
        other.join();
    }
}
"""
GO = """
package main

// int unused;
import "C"
import "runtime"
func main() {
    there, back := make(chan int), make(chan int)
    go func() {
        runtime.LockOSThread()
        for i := range there { back <- i }
        close(back)
    }()
    runtime.LockOSThread()
    for i := 0; i < 20000; i++ { there <- i; <-back }
    close(there)
}
"""
OPENMP = """
#include <omp.h>
int main(void) {
    #pragma omp parallel num_threads(2)
    for (int i = 0; i < 20000; i++) {
        #pragma omp barrier
    }
}
"""
SQLITE = """
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
static sqlite3 *db;
static void *inserts(void *unused) {
    for (int i = 0; i < 20000; i++)
        if (sqlite3_exec(db, "insert into t values (1)", 0, 0, 0)) abort();
    return unused;
}
int main(void) {
    pthread_t threads[2];
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, 0)) abort();
    if (sqlite3_exec(db, "create table t (a)", 0, 0, 0)) abort();
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, inserts, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
"""
TOKIO = """
#[tokio::main(flavor = "current_thread")]
async fn main() {
    for i in 0..20000 {
        assert_eq!(tokio::task::spawn_blocking(move || i + 1).await.unwrap(), i + 1);
    }
}
"""


def hand_off_programs(folder):
    """Names and commands of those that can be built here."""
    def write(name, text):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)

    def build(name, *command):
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            return True
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{name:32} left out: {error}")
            return False

    yield "mutex and condvar", [compiled("ping_pong", folder), "20000"]
    yield "queue in Python", [python(), "-c", QUEUE]
    write("Hands.java", JAVA)
    if build("SynchronousQueue", "javac", "Hands.java"):
        yield "SynchronousQueue", ["java", "-cp", folder, "Hands"]
    write("hands.go", GO)
    if build("channels in Go", "go", "build", "-o", "go-hands", "hands.go"):
        yield "channels in Go", [f"{folder}/go-hands"]
    write("openmp.c", OPENMP)
    if build("OpenMP barriers", "gcc", "-O2", "-fopenmp", "openmp.c", "-o", "openmp"):
        yield "OpenMP barriers", ["env", "OMP_WAIT_POLICY=passive", f"{folder}/openmp"]
    write("sqlite.c", SQLITE)
    if build("sqlite", "gcc", "-O2", "-pthread", "sqlite.c", "-lsqlite3", "-o", "sqlite"):
        yield "sqlite", [f"{folder}/sqlite"]
    write("tokio/src/main.rs", TOKIO)
    write("tokio/Cargo.toml", """[package]
name = "hands"
edition = "2021"
[dependencies]
tokio = { version = "1", features = ["rt", "macros"] }
[workspace]
""")
    if build("tokio", "cargo", "build", "--release", "--manifest-path", "tokio/Cargo.toml", "--target-dir", "tokio/target"):
        yield "tokio's blocking pool", [f"{folder}/tokio/target/release/hands"]
    write("data", "".join(f"{i * i} " for i in range(2_000_000)))
    if build("xz -T2", "xz", "--version"):
        yield "xz -T2", ["sh", "-c", f"xz -T2 -3 --block-size=1MiB -c {folder}/data > {folder}/out"]
    mariadb = ["env", "EVENTS=8000", "sh", f"{HERE}/installed/mariadb.sh"]
    if build("MariaDB, 8 clients", "env", "EVENTS=8", *mariadb[2:]):
        yield "MariaDB, 8 clients", mariadb


TRAP = [UFUTEX, "run", "--trap"]
# Modes in which the programs run whose threads wait for each other. What `locks` finds goes to a file.
OF_HAND_OFFS = {
    "hand-offs": {"kernel": [], "run --trap": TRAP + ["--"], "... --spin": TRAP + ["--spin", "--"]},
    "locks": {"run --trap": TRAP + ["--"], "locks": [UFUTEX, "locks", "-f", "-o", os.devnull, "--"]},
}


def hand_offs(folder, modes):
    """Wall and CPU time of the same run, in milliseconds."""
    for name, command in hand_off_programs(folder):
        rounds = []
        for _ in range(ROUNDS):
            row = {}
            for mode, prefix in modes.items():
                begin, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                output(prefix + command)
                wall, end = time.monotonic() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
                row[mode] = (wall * 1000, (end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime) * 1000)
            rounds.append(row)
        for column, what in enumerate(["", ", CPU time"]):
            measured = iter([row[mode][column] for row in rounds for mode in modes])
            compare(name + what, "ms", lambda _: next(measured), f"/ {next(iter(modes))}'s", modes=modes)


with tempfile.TemporaryDirectory() as folder:
    if sys.argv[3:]:
        hand_offs(folder, OF_HAND_OFFS[sys.argv[3]])
        sys.exit()
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
