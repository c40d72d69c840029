"""Python's threads, locks, queues, pools, subprocesses and asyncio; sqlite3 from several threads."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.setswitchinterval(0.0002)


def on_threads(count, body):
    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def locks():
    lock, total = threading.RLock(), [0]

    def adds(_):
        for _ in range(3000):
            with lock, lock:
                seen = total[0]
                total[0] = seen + 1

    on_threads(4, adds)
    print("locks", total[0])


def conditions():
    condition, turn = threading.Condition(), [0]

    def takes_turns(me):
        for i in range(me, 2000, 2):
            with condition:
                condition.wait_for(lambda: turn[0] == i)
                turn[0] += 1
                condition.notify()

    on_threads(2, takes_turns)
    with condition:
        print("conditions", turn[0], condition.wait(0.01))


def others():
    semaphore, barrier, event = threading.BoundedSemaphore(2), threading.Barrier(4), threading.Event()

    def meets(_):
        for _ in range(100):
            with semaphore:
                pass
            barrier.wait()
        event.wait()

    threading.Timer(0.02, event.set).start()
    on_threads(4, meets)
    started = time.monotonic()
    print("timeout", threading.Lock().acquire(timeout=0.01), not threading.Event().wait(0.01), time.monotonic() - started > 0.01)


def queues():
    work, done = queue.Queue(4), queue.SimpleQueue()

    def consumes(_):
        while (item := work.get()) is not None:
            done.put(item * item)
            work.task_done()

    threads = [threading.Thread(target=consumes, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for i in range(2000):
        work.put(i)
    work.join()
    for _ in threads:
        work.put(None)
    for thread in threads:
        thread.join()
    print("queues", sum(done.get() for _ in range(2000)))


def pools():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print("threads", sum(pool.map(lambda i: i * i, range(1000))))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print("processes", sum(pool.map(abs, range(-100, 0), chunksize=10)))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print("spawned", pool.map(abs, [-3, -4]))


def processes():
    print("subprocess", subprocess.run(["sh", "-c", "echo from a shell; exit 7"], capture_output=True, text=True))
    stop = threading.Event()

    def spins(_):
        while not stop.is_set():
            time.sleep(0)

    threads = [threading.Thread(target=spins, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    statuses = set()
    for _ in range(20):
        child = os.fork()
        if not child:
            thread = threading.Thread(target=lambda: None)
            thread.start()
            thread.join()
            os._exit(5)
        statuses.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.set()
    for thread in threads:
        thread.join()
    print("forks", statuses)


def signals():
    hits, lock = [], threading.Lock()
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    lock.acquire()
    while len(hits) < 20:
        lock.acquire(timeout=0.002)  # the handler runs between two waits
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("signals", len(hits) >= 20)


def loops():
    async def main():
        loop = asyncio.get_running_loop()
        results = await asyncio.gather(*(loop.run_in_executor(None, lambda i=i: i + 1) for i in range(100)))
        return sum(results)

    print("asyncio", asyncio.run(main()))


def databases():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "db")
        sqlite3.connect(path).execute("create table t (i integer)").connection.commit()

        def inserts(me):
            connection = sqlite3.connect(path, timeout=60)
            for i in range(20):
                with connection:
                    connection.execute("insert into t values (?)", (me * 100 + i,))
            connection.close()

        on_threads(4, inserts)
        print("sqlite3", sqlite3.connect(path).execute("select count(*), sum(i) from t").fetchone())


if __name__ == "__main__":
    for part in (locks, conditions, others, queues, pools, processes, signals, loops, databases):
        part()
