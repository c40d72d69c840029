// As culprit.c, with what Java has.
public class Culprit {
    static final Object orders = new Object(), prices = new Object(), queue = new Object();
    static volatile boolean isOver;

    static void rest(long ms) {
        try {
            if (ms != 0) Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    static void takeOrders(long ms) {
        synchronized (orders) {
            rest(ms);
        }
    }

    static void takePrices(long ms) {
        synchronized (prices) {
            rest(ms);
        }
    }

    static void waitForWork() {
        try {
            synchronized (queue) {
                while (!isOver) queue.wait();
            }
        } catch (InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    static void clerk(long ordersMs, long pricesMs) {
        for (int i = 0; i < 12; i++) {
            takeOrders(ordersMs);
            takePrices(pricesMs);
        }
        isOver = true;
    }

    static void buyer() {
        while (!isOver) {
            takeOrders(0);
            takePrices(0);
        }
    }

    static Thread start(String name, Runnable body) {
        var thread = new Thread(body, name);
        thread.start();
        return thread;
    }

    public static void main(String[] args) throws Exception {
        boolean isPrices = args.length > 0 && args[0].equals("prices");
        Thread[] idle = new Thread[4];
        for (int i = 0; i < 4; i++) idle[i] = start("idle", Culprit::waitForWork);
        Thread[] threads = {
            start("clerk", () -> clerk(isPrices ? 1 : 25, isPrices ? 25 : 1)),
            start("buyer", Culprit::buyer),
            start("buyer", Culprit::buyer),
            start("buyer", Culprit::buyer),
        };
        for (Thread thread : threads) thread.join();
        synchronized (queue) {
            queue.notifyAll();
        }
        for (Thread thread : idle) thread.join();
    }
}
