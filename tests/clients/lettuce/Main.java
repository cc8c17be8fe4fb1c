// Lettuce against a server.

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.Consumer;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LMoveArgs;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.ClientSideCaching;

public class Main {
    static final RedisURI SERVER = RedisURI.create("redis://127.0.0.1:" + System.getenv("ALMANDINE_PORT"));
    static RedisClient client;

    interface Case {
        void run(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) throws Exception;
    }

    static void everyType(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) {
        equal(List.of(r.set("a", "1", SetArgs.Builder.ex(100)), r.incr("a"), r.get("a"), r.ttl("a") > 90), List.of("OK", 2L, "2", true));
        equal(List.of(r.mset(Map.of("x", "1", "y", "2")), r.mget("x", "y")), List.of("OK", List.of(KeyValue.just("x", "1"), KeyValue.just("y", "2"))));
        equal(List.of(r.setbit("b", 7, 1), r.bitcount("b"), r.append("x", "bc")), List.of(0L, 1L, 3L));
        equal(List.of(r.hset("h", Map.of("a", "1", "b", "2")), r.hgetall("h"), r.hincrby("h", "a", 4)), List.of(2L, Map.of("a", "1", "b", "2"), 5L));
        equal(List.of(r.rpush("l", "1", "2"), r.lrange("l", 0, -1), r.lmove("l", "m", LMoveArgs.Builder.leftRight())), List.of(2L, List.of("1", "2"), "1"));
        equal(List.of(r.sadd("s", "a", "b"), r.smembers("s"), r.smismember("s", "a", "z")), List.of(2L, Set.of("a", "b"), List.of(true, false)));
        equal(List.of(r.zadd("z", ScoredValue.just(1, "a"), ScoredValue.just(2.5, "b")), r.zscore("z", "b")), List.of(2L, 2.5));
        equal(r.zrangeWithScores("z", 0, -1), List.of(ScoredValue.just(1, "a"), ScoredValue.just(2.5, "b")));
        equal(List.of(r.geoadd("g", 13.361389, 38.115556, "Palermo"), r.pfadd("p", "a", "b"), r.pfcount("p")), List.of(1L, 1L, 2L));
        String id = r.xadd("st", Map.of("f", "v"));
        equal(r.xgroupCreate(XReadArgs.StreamOffset.from("st", "0"), "g1"), "OK");
        equal(r.xreadgroup(Consumer.from("g1", "c"), XReadArgs.StreamOffset.lastConsumed("st")).get(0).getBody(), Map.of("f", "v"));
        equal(List.of(r.xpending("st", "g1").getCount(), r.xack("st", "g1", id), r.xlen("st")), List.of(1L, 1L, 1L));
        for (int n = 0; n < 500; n++) r.set("key:" + n, "v");
        equal(ScanIterator.scan(r).stream().filter(key -> key.startsWith("key:")).distinct().count(), 500L);
    }

    static void futuresAndStreams(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) {
        List<RedisFuture<Long>> futures = new ArrayList<>();
        for (int n = 0; n < 1000; n++) futures.add(connection.async().incr("n"));
        equal(LettuceFutures.awaitAll(5, TimeUnit.SECONDS, futures.toArray(new RedisFuture[0])), true);
        equal(r.get("n"), "1000");
        connection.setAutoFlushCommands(false);
        RedisFuture<Long> held = connection.async().incr("n");
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        equal(held.toCompletableFuture().join(), 1001L);
        var reactive = connection.reactive();
        equal(reactive.set("r", "1").then(reactive.incr("r")).block(Duration.ofSeconds(5)), 2L);
    }

    static void transactions(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) {
        r.multi();
        r.set("t", "1");
        r.incr("t");
        equal(r.exec().stream().toList(), List.of("OK", 2L));
        r.watch("t");
        try (var other = client.connect()) {
            other.sync().set("t", "10");
        }
        r.multi();
        r.incr("t");
        equal(r.exec().wasDiscarded(), true);
    }

    static void publishSubscribe(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) throws Exception {
        List<String> heard = new CopyOnWriteArrayList<>();
        try (var listener = client.connectPubSub()) {
            listener.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.add(channel + " " + message);
                }

                @Override
                public void message(String pattern, String channel, String message) {
                    heard.add(pattern + " " + channel + " " + message);
                }

                @Override
                public void smessage(String channel, String message) {
                    heard.add(channel + " " + message);
                }
            });
            listener.sync().subscribe("news");
            listener.sync().psubscribe("n*");
            listener.sync().ssubscribe("shard");
            equal(List.of(r.publish("news", "hello"), r.spublish("shard", "s")), List.of(2L, 1L));
            for (int n = 0; n < 500 && heard.size() < 3; n++) Thread.sleep(10);
            equal(heard, List.of("news hello", "n* news hello", "shard s"));
        }
    }

    static void blocking(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) {
        try (var others = client.connect()) {
            var other = others.async();
            var popped = connection.async().blpop(5, "none", "q");
            sleep();
            other.rpush("q", "a");
            equal(popped.toCompletableFuture().join(), KeyValue.just("q", "a"));
            var moved = connection.async().blmove("q", "m", LMoveArgs.Builder.leftRight(), 5);
            sleep();
            other.lpush("q", "b");
            equal(moved.toCompletableFuture().join(), "b");
            var least = connection.async().bzpopmin(5, "z");
            sleep();
            other.zadd("z", 1, "a");
            equal(least.toCompletableFuture().join().getValue().getValue(), "a");
            var read = connection.async().xread(XReadArgs.Builder.block(5000), XReadArgs.StreamOffset.latest("x"));
            sleep();
            other.xadd("x", Map.of("f", "v"));
            equal(read.toCompletableFuture().join().size(), 1);
            equal(r.blpop(0.2, "q"), null);
        }
    }

    static void theServer(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) {
        equal(List.of(r.ping(), r.clientSetname("me"), r.clientGetname(), r.aclWhoami()), List.of("PONG", "OK", "me", "default"));
        equal(r.configGet("maxmemory"), Map.of("maxmemory", "0"));
        equal(List.of(r.info("server").contains("redis_version:"), r.clientList().contains("name=me"), r.command().size() > 200), List.of(true, true, true));
        RedisURI socket = RedisURI.Builder.socket(System.getenv("ALMANDINE_SOCKET")).build();
        equal(socket.getSocket() != null, true);
    }

    static void clientSideCaching(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) throws Exception {
        if (connection.getOptions().getConfiguredProtocolVersion() != ProtocolVersion.RESP3) return;
        Map<String, String> copies = new ConcurrentHashMap<>();
        try (var cached = client.connect()) {
            var front = ClientSideCaching.enable(CacheAccessor.forMap(copies), cached, TrackingArgs.Builder.enabled());
            r.set("c", "1");
            equal(List.of(front.get("c"), copies), List.of("1", Map.of("c", "1")));
            r.set("c", "2");
            for (int n = 0; n < 500 && copies.containsKey("c"); n++) Thread.sleep(10);
            equal(front.get("c"), "2");
        }
    }

    static void sleep() {
        try {
            Thread.sleep(100);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    static void equal(Object actual, Object expected) {
        if (!Objects.equals(actual, expected)) throw new AssertionError("expected " + expected + ", got " + actual);
    }

    public static void main(String[] arguments) {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("every type", Main::everyType);
        cases.put("futures and streams", Main::futuresAndStreams);
        cases.put("transactions", Main::transactions);
        cases.put("publish and subscribe", Main::publishSubscribe);
        // Until commands that block are there.
        if ("0".equals(System.getenv("ALMANDINE_BLOCKS"))) System.out.println("left out: blocking");
        else cases.put("blocking", Main::blocking);
        cases.put("the server", Main::theServer);
        cases.put("client-side caching", Main::clientSideCaching);
        List<String> failed = new ArrayList<>();
        for (ProtocolVersion protocol : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
            client = RedisClient.create(SERVER);
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            cases.forEach((name, work) -> {
                try (var connection = client.connect()) {
                    connection.setTimeout(Duration.ofSeconds(10));
                    connection.sync().flushall();
                    work.run(connection, connection.sync());
                    System.out.println("ok: " + name + ", " + protocol);
                } catch (Throwable e) {
                    failed.add(name);
                    System.out.println("FAILED: " + name + ", " + protocol);
                    e.printStackTrace(System.out);
                }
            });
        }
        System.out.println(2 * cases.size() - failed.size() + " passed, " + failed.size() + " failed");
        System.exit(failed.isEmpty() ? 0 : 1);
    }
}
