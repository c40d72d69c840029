# As culprit.c, with what Python has.
import ctypes
import queue
import sys
import threading
import time

orders, prices, work = threading.Lock(), threading.Lock(), queue.Queue()
is_over = threading.Event()


def take_orders(seconds):
    with orders:
        time.sleep(seconds)


def take_prices(seconds):
    with prices:
        time.sleep(seconds)


def wait_for_work():
    work.get()


def clerk(orders_time, prices_time):
    PR_SET_NAME = 15
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"clerk")
    for _ in range(12):
        take_orders(orders_time)
        take_prices(prices_time)
    is_over.set()


def buyer():
    while not is_over.is_set():
        take_orders(0)
        take_prices(0)
        time.sleep(0.001)  # without the interpreter's lock


times = (0.001, 0.025) if sys.argv[1:] == ["prices"] else (0.025, 0.001)
idle = [threading.Thread(target=wait_for_work) for _ in range(4)]
threads = [threading.Thread(target=buyer) for _ in range(3)] + [threading.Thread(target=clerk, args=times)]
for thread in idle + threads:
    thread.start()
for thread in threads:
    thread.join()
for thread in idle:
    work.put(1)
for thread in idle:
    thread.join()
