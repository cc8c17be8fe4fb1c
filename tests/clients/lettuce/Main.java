// Lettuce against a server.

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.Consumer;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LMPopArgs;
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
import io.lettuce.core.ZPopArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.ClientSideCaching;

public class Main extends Checks {
    static final RedisURI SERVER = RedisURI.create("redis://127.0.0.1:" + PORT);
    static RedisClient client;

    interface Case {
        void run(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) throws Exception;
    }

    static void everyType(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) {
        equal(List.of(r.set("a", "1", SetArgs.Builder.ex(100)), r.incr("a"), r.get("a"), r.ttl("a") > 90), List.of("OK", 2L, "2", true));
        equal(List.of(r.mset(Map.of("x", "1", "y", "2")), r.mget("x", "y")), List.of("OK", List.of(KeyValue.just("x", "1"), KeyValue.just("y", "2"))));
        equal(List.of(r.setbit("b", 7, 1), r.bitcount("b"), r.append("x", "bc")), List.of(0L, 1L, 3L));
        equal(List.of(r.hset("h", Map.of("a", "1", "b", "2")), r.hgetall("h"), r.hincrby("h", "a", 4)), List.of(2L, Map.of("a", "1", "b", "2"), 5L));
        if (!REFERENCE) equal(List.of(r.hexpire("h", 100, "a"), r.httl("h", "a")), List.of(List.of(1L), List.of(100L)));
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
            eventually(() -> heard.size() == 3);
            equal(heard, List.of("news hello", "n* news hello", "shard s"));
        }
    }

    static void blocking(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) throws Exception {
        try (var others = client.connect()) {
            var other = others.sync();
            equal(waited(() -> r.blpop(5, "none", "q"), () -> other.rpush("q", "a")), KeyValue.just("q", "a"));
            equal(waited(() -> r.brpop(5, "none", "q"), () -> other.rpush("q", "a", "b")), KeyValue.just("q", "b"));
            other.del("q");
            equal(waited(() -> r.blmove("q", "m", LMoveArgs.Builder.leftRight(), 5), () -> other.lpush("q", "b")), "b");
            equal(waited(() -> r.brpoplpush(5, "q", "m"), () -> other.lpush("q", "c")), "c");
            equal(waited(() -> r.blmpop(5, LMPopArgs.Builder.left().count(2), "q"), () -> other.rpush("q", "a", "b", "c")), KeyValue.just("q", List.of("a", "b")));
            var low = ScoredValue.just(1, "a");
            var high = ScoredValue.just(2.5, "b");
            equal(waited(() -> r.bzpopmin(5, "none", "z"), () -> other.zadd("z", low, high)), KeyValue.just("z", low));
            other.del("z");
            equal(waited(() -> r.bzpopmax(5, "z"), () -> other.zadd("z", low, high)), KeyValue.just("z", high));
            other.del("z");
            equal(waited(() -> r.bzmpop(5, ZPopArgs.Builder.min(), "z"), () -> other.zadd("z", low, high)), KeyValue.just("z", low));
            var read = waited(() -> r.xread(XReadArgs.Builder.block(5000), XReadArgs.StreamOffset.latest("x")), () -> other.xadd("x", Map.of("f", "v")));
            equal(read.get(0).getBody(), Map.of("f", "v"));
            r.xgroupCreate(XReadArgs.StreamOffset.latest("x"), "g");
            var delivered = waited(
                () -> r.xreadgroup(Consumer.from("g", "c"), XReadArgs.Builder.block(5000), XReadArgs.StreamOffset.lastConsumed("x")),
                () -> other.xadd("x", Map.of("f", "w")));
            equal(delivered.get(0).getBody(), Map.of("f", "w"));
            other.del("q");
            equal(r.blpop(0.2, "q"), null);
        }
    }

    static void theServer(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) {
        equal(List.of(r.ping(), r.clientSetname("me"), r.clientGetname(), r.aclWhoami()), List.of("PONG", "OK", "me", "default"));
        equal(r.configGet("maxmemory"), Map.of("maxmemory", "0"));
        equal(List.of(r.info("server").contains("redis_version:"), r.clientList().contains("name=me"), r.command().size() > 200), List.of(true, true, true));
        String version = connection.getOptions().getConfiguredProtocolVersion() == ProtocolVersion.RESP3 ? "resp=3" : "resp=2";
        equal(r.clientInfo().contains(version), true);
        try (var overSocket = client.connect(RedisURI.Builder.socket(SOCKET).build())) {
            equal(overSocket.sync().ping(), "PONG");
        }
    }

    static void clientSideCaching(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> r) throws Exception {
        Map<String, String> copies = new ConcurrentHashMap<>();
        try (var cached = client.connect()) {
            var front = ClientSideCaching.enable(CacheAccessor.forMap(copies), cached, TrackingArgs.Builder.enabled());
            r.set("c", "1");
            equal(List.of(front.get("c"), copies), List.of("1", Map.of("c", "1")));
            r.configResetstat();
            for (int n = 0; n < 100; n++) equal(front.get("c"), "1");
            equal(r.info("commandstats").contains("cmdstat_get:"), false);
            r.set("c", "2");
            eventually(() -> !copies.containsKey("c"));
            equal(front.get("c"), "2");
        }
    }

    public static void main(String[] arguments) {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("every type", Main::everyType);
        cases.put("futures and streams", Main::futuresAndStreams);
        cases.put("transactions", Main::transactions);
        cases.put("publish and subscribe", Main::publishSubscribe);
        cases.put("blocking", Main::blocking);
        cases.put("the server", Main::theServer);
        for (ProtocolVersion protocol : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
            if (protocol == ProtocolVersion.RESP3) cases.put("client-side caching", Main::clientSideCaching);
            var own = RedisClient.create(SERVER);
            own.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            cases.forEach((name, work) -> add(name + ", " + protocol, () -> {
                client = own;
                try (var connection = client.connect()) {
                    connection.setTimeout(Duration.ofSeconds(10));
                    connection.sync().flushall();
                    work.run(connection, connection.sync());
                }
            }));
        }
        run();
    }
}
