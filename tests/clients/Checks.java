// What the Java programs here share: named cases, and the closing line that `cargo xtask clients` counts.

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;

class Checks {
    static final int PORT = Integer.parseInt(System.getenv("ALMANDINE_PORT"));
    static final String SOCKET = System.getenv("ALMANDINE_SOCKET");
    // Set when the server is redis-server 7.0, which lacks what came later.
    static final boolean REFERENCE = "1".equals(System.getenv("ALMANDINE_REFERENCE"));

    private static final Map<String, Work> cases = new LinkedHashMap<>();

    interface Work {
        void run() throws Exception;
    }

    static void add(String name, Work work) {
        cases.put(name, work);
    }

    static void equal(Object actual, Object expected) {
        if (!Objects.equals(actual, expected)) throw new AssertionError("expected " + expected + ", got " + actual);
    }

    static void eventually(Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + 5_000_000_000L;
        while (!condition.call()) {
            if (System.nanoTime() > end) throw new AssertionError("did not come true within 5 s");
            Thread.sleep(10);
        }
    }

    /** What a call returns that must wait for what is done a tenth of a second later. */
    static <T> T waited(Callable<T> call, Work later) throws Exception {
        Thread other = new Thread(() -> {
            try {
                Thread.sleep(100);
                later.run();
            } catch (Exception e) {
                e.printStackTrace(System.out);
            }
        });
        other.start();
        long started = System.nanoTime();
        T result = call.call();
        if (System.nanoTime() - started < 50_000_000L) throw new AssertionError("it did not wait");
        other.join();
        return result;
    }

    /** Runs the cases in their order, and ends the program. */
    static void run() {
        int failed = 0;
        for (var one : cases.entrySet()) {
            try {
                one.getValue().run();
                System.out.println("ok: " + one.getKey());
            } catch (Throwable e) {
                failed += 1;
                System.out.println("FAILED: " + one.getKey());
                e.printStackTrace(System.out);
            }
        }
        System.out.println(cases.size() - failed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
