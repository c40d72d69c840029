// Java's monitors, java.util.concurrent, a collector that stops all threads, and child processes.
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.*;
import java.util.stream.*;

public class Threads {
    interface Body {
        void run(int me) throws Exception;
    }

    static void onThreads(int count, Body body) throws Exception {
        var pool = Executors.newFixedThreadPool(count);
        var results = new ArrayList<Future<?>>();
        for (int i = 0; i < count; i++) {
            int me = i;
            results.add(pool.submit(() -> {
                body.run(me);
                return null;
            }));
        }
        for (var result : results) result.get();
        pool.shutdown();
        if (!pool.awaitTermination(60, TimeUnit.SECONDS)) throw new AssertionError("a pool does not end");
    }

    static int turn;
    static long sum;

    static void monitors() throws Exception {
        var monitor = new Object();
        onThreads(2, me -> {
            for (int i = me; i < 5000; i += 2)
                synchronized (monitor) {
                    while (turn != i) monitor.wait();
                    turn++;
                    monitor.notifyAll();
                }
        });
        onThreads(4, me -> {
            for (int i = 0; i < 20000; i++)
                synchronized (monitor) {
                    sum++;
                }
        });
        System.out.println("monitors " + turn + " " + sum);
    }

    static void locks() throws Exception {
        var lock = new ReentrantLock();
        var condition = lock.newCondition();
        sum = 0;
        onThreads(4, me -> {
            for (int i = 0; i < 5000; i++) {
                lock.lock();
                try {
                    sum++;
                    condition.signal();
                    if (i % 64 == 0) condition.await(100, TimeUnit.MICROSECONDS);
                } finally {
                    lock.unlock();
                }
            }
        });
        var places = new Semaphore(2);
        var barrier = new CyclicBarrier(4);
        var inside = new AtomicInteger();
        onThreads(4, me -> {
            for (int i = 0; i < 500; i++) {
                places.acquire();
                if (inside.incrementAndGet() > 2) throw new AssertionError("more than two");
                inside.decrementAndGet();
                places.release();
                barrier.await();
            }
        });
        System.out.println("locks " + sum + " " + places.tryAcquire(3, 5, TimeUnit.MILLISECONDS));
    }

    static void parking() throws Exception {
        var main = Thread.currentThread();
        var asked = new AtomicInteger();
        var other = new Thread(() -> {
            for (int i = 1; i <= 2000; i++) {
                while (asked.get() < 2 * i - 1) LockSupport.park();
                asked.incrementAndGet();
                LockSupport.unpark(main);
            }
        });
        other.start();
        for (int i = 1; i <= 2000; i++) {
            asked.incrementAndGet();
            LockSupport.unpark(other);
            while (asked.get() < 2 * i) LockSupport.park();
        }
        other.join();
        LockSupport.parkNanos(1_000_000);
        System.out.println("parking " + asked.get());
    }

    static void interruption() throws Exception {
        int interrupted = 0;
        for (int i = 0; i < 100; i++) {
            var thread = new Thread(() -> {
                try {
                    Thread.sleep(600_000);
                } catch (InterruptedException e) {
                    sum++;
                }
            });
            sum = 0;
            thread.start();
            thread.interrupt();
            thread.join();
            interrupted += sum;
        }
        System.out.println("interruption " + interrupted);
    }

    static void pools() throws Exception {
        var queue = new ArrayBlockingQueue<Integer>(4);
        var total = new LongAdder();
        onThreads(4, me -> {
            for (int i = 0; i < 2000; i++) {
                if (me % 2 == 0) queue.put(i);
                else total.add(queue.take());
            }
        });
        long parallel = IntStream.range(0, 200_000).parallel().mapToLong(i -> (long) i * i % 7).sum();
        var chain = CompletableFuture.supplyAsync(() -> 6).thenApplyAsync(i -> i * 7).thenCombine(
            CompletableFuture.supplyAsync(() -> 58), Integer::sum);
        System.out.println("pools " + total + " " + parallel + " " + chain.get());
    }

    // Threads must reach safepoints while they allocate and lock.
    static void collections() throws Exception {
        var map = new ConcurrentHashMap<Integer, byte[]>();
        onThreads(3, me -> {
            for (int i = 0; i < 4000; i++) {
                map.put(i % 512, new byte[4096]);
                if (i % 1000 == 0) System.gc();
            }
        });
        System.out.println("collections " + map.size());
    }

    static void processes() throws Exception {
        var process = new ProcessBuilder("sh", "-c", "echo from a shell; exit 7").start();
        var said = new String(process.getInputStream().readAllBytes()).trim();
        System.out.println("processes " + said + " " + process.waitFor());
    }

    public static void main(String[] arguments) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("at exit")));
        monitors();
        locks();
        parking();
        interruption();
        pools();
        collections();
        processes();
        System.exit(3);
    }
}
