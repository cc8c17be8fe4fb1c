// What the Java programs here share: named cases, and the closing line that `cargo xtask clients` counts.

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;

import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

class Checks {
    static final int PORT = Integer.parseInt(System.getenv("ALMANDINE_PORT"));
    static final String SOCKET = System.getenv("ALMANDINE_SOCKET");
    static final int SECURE_PORT = Integer.parseInt(System.getenv("ALMANDINE_TLS_PORT"));
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

    /** How a client is trusted, and trusts, at SECURE_PORT. */
    static SSLContext tls() throws Exception {
        Path directory = Path.of(System.getenv("ALMANDINE_CERTIFICATES"));
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        store.setCertificateEntry("authority", certificate(directory.resolve("ca.crt")));
        String body = Files.readString(directory.resolve("alice.key")).replaceAll("-----[^-]+-----|\\s", "");
        var key = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(body)));
        store.setKeyEntry("alice", key, new char[0], new Certificate[] {certificate(directory.resolve("alice.crt"))});
        var trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store);
        var own = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        own.init(store, new char[0]);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own.getKeyManagers(), trusted.getTrustManagers(), null);
        return context;
    }

    private static Certificate certificate(Path file) throws Exception {
        try (var bytes = Files.newInputStream(file)) {
            return CertificateFactory.getInstance("X.509").generateCertificate(bytes);
        }
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
