// Jedis against a server.

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;

import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.args.SortedSetOption;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.params.XReadParams;

public class Main extends Checks {
    static RedisProtocol protocol;
    // Set while connections speak TLS.
    static SSLContext tls;

    interface Case {
        void run(Jedis r) throws Exception;
    }

    static HostAndPort server() {
        return new HostAndPort("127.0.0.1", tls == null ? PORT : SECURE_PORT);
    }

    static DefaultJedisClientConfig config() {
        var config = DefaultJedisClientConfig.builder().protocol(protocol);
        if (tls != null) {
            SSLParameters parameters = new SSLParameters();
            // The certificate must be for the host.
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            config.ssl(true).sslSocketFactory(tls.getSocketFactory()).sslParameters(parameters);
        }
        return config.build();
    }

    static void stringsAndKeys(Jedis r) {
        equal(r.set("a", "1", SetParams.setParams().ex(100)), "OK");
        equal(r.set("a", "2", SetParams.setParams().nx()), null);
        equal(r.setGet("a", "2", SetParams.setParams().xx()), "1");
        equal(List.of(r.incr("n"), r.incrBy("n", 5), r.decr("n")), List.of(1L, 6L, 5L));
        equal(r.incrByFloat("f", 1.5), 1.5);
        equal(r.mset("x", "1", "y", "2"), "OK");
        equal(r.mget("x", "none", "y"), Arrays.asList("1", null, "2"));
        equal(List.of(r.append("x", "bc"), r.getrange("x", 1, -1), r.strlen("x")), List.of(3L, "bc", 3L));
        equal(List.of(r.setbit("b", 7, true), r.bitcount("b"), r.bitfield("b", "GET", "u8", "0")), List.of(false, 1L, List.of(1L)));
        equal(List.of(r.expire("x", 100), r.pttl("x") > 90_000, r.persist("x")), List.of(1L, true, 1L));
        equal(List.of(r.rename("x", "z"), r.copy("z", "zz", false), r.del("z", "none"), r.type("a")), List.of("OK", true, 1L, "string"));
        byte[] binary = {0, -1, 13, 10};
        r.set("binary".getBytes(), binary);
        equal(r.restore("again", 0, r.dump("binary")), "OK");
        equal(Arrays.equals(r.get("again".getBytes()), binary), true);
        for (int n = 0; n < 500; n++) r.set("key:" + n, "v");
        Set<String> seen = new java.util.HashSet<>();
        String cursor = "0";
        do {
            var page = r.scan(cursor, new ScanParams().match("key:*").count(20));
            seen.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals("0"));
        equal(seen.size(), 500);
    }

    static void collections(Jedis r) {
        equal(r.hset("h", Map.of("a", "1", "b", "2")), 2L);
        equal(List.of(r.hgetAll("h"), r.hincrBy("h", "a", 4), r.hlen("h")), List.of(Map.of("a", "1", "b", "2"), 5L, 2L));
        equal(r.hmget("h", "a", "none"), Arrays.asList("5", null));
        if (!REFERENCE) equal(List.of(r.hexpire("h", 100, "a"), r.httl("h", "a")), List.of(List.of(1L), List.of(100L)));
        equal(List.of(r.rpush("l", "1", "2", "3"), r.lpush("l", "0"), r.lrange("l", 0, -1)), List.of(3L, 4L, List.of("0", "1", "2", "3")));
        equal(List.of(r.lpop("l"), r.rpop("l", 2), r.lmove("l", "m", ListDirection.LEFT, ListDirection.RIGHT)), List.of("0", List.of("3", "2"), "1"));
        equal(List.of(r.sadd("s", "a", "b"), r.sadd("t", "b"), r.sinter("s", "t"), r.smismember("s", "a", "z")), List.of(2L, 1L, Set.of("b"), List.of(true, false)));
        Map<String, Double> scores = new LinkedHashMap<>();
        scores.put("a", 1.0);
        scores.put("b", 2.5);
        equal(List.of(r.zadd("z", scores), r.zscore("z", "b"), r.zrange("z", 0, -1), r.zincrby("z", 1, "a")), List.of(2L, 2.5, List.of("a", "b"), 2.0));
        equal(r.zrangeWithScores("z", 0, -1).get(1).getScore(), 2.5);
        equal(r.zpopmax("z").getElement(), "b");
        equal(List.of(r.geoadd("g", 13.361389, 38.115556, "Palermo"), r.geohash("g", "Palermo")), List.of(1L, List.of("sqc8b49rny0")));
        equal(List.of(r.pfadd("p", "a", "b"), r.pfcount("p")), List.of(1L, 2L));
    }

    static void streams(Jedis r) {
        StreamEntryID id = r.xadd("x", StreamEntryID.NEW_ENTRY, Map.of("f", "v"));
        equal(List.of(r.xlen("x"), r.xrange("x", "-", "+").get(0).getFields()), List.of(1L, Map.of("f", "v")));
        equal(r.xgroupCreate("x", "g", new StreamEntryID("0-0"), false), "OK");
        var read = r.xreadGroup("g", "c", XReadGroupParams.xReadGroupParams().count(10), Map.of("x", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
        equal(read.get(0).getValue().get(0).getID(), id);
        equal(List.of(r.xpending("x", "g").getTotal(), r.xack("x", "g", id), r.xinfoStream("x").getLength()), List.of(1L, 1L, 1L));
        equal(r.xinfoGroups("x").get(0).getName(), "g");
    }

    static void pipelinesAndTransactions(Jedis r) {
        var pipeline = r.pipelined();
        Response<Long> last = null;
        for (int n = 0; n < 1000; n++) last = pipeline.incr("many");
        pipeline.sync();
        equal(last.get(), 1000L);
        var transaction = r.multi();
        transaction.set("t", "1");
        transaction.incr("t");
        equal(transaction.exec(), List.of("OK", 2L));
        r.watch("t");
        try (Jedis other = new Jedis(server(), config())) {
            other.set("t", "10");
        }
        transaction = r.multi();
        transaction.incr("t");
        equal(transaction.exec(), null);
        try {
            r.lpush("t", "x");
            throw new AssertionError("no error");
        } catch (JedisDataException e) {
            equal(e.getMessage().startsWith("WRONGTYPE"), true);
        }
    }

    static void scriptsAndFunctions(Jedis r) {
        equal(r.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", List.of("n"), List.of("3")), 3L);
        String sha = r.scriptLoad("return {KEYS[1], #ARGV, {ok = 'fine'}}");
        equal(r.evalsha(sha, List.of("k"), List.of("1", "2")), List.of("k", 2L, "fine"));
        equal(r.scriptExists(sha, "0".repeat(40)), List.of(true, false));
        var pipeline = r.pipelined();
        Response<Object> last = null;
        for (int n = 0; n < 100; n++) last = pipeline.evalsha(sha, List.of("k" + n), List.of());
        pipeline.sync();
        equal(last.get(), List.of("k99", 0L, "fine"));
        try {
            r.evalsha("0".repeat(40));
            throw new AssertionError("no error");
        } catch (JedisNoScriptException e) {
            equal(e.getMessage().startsWith("NOSCRIPT"), true);
        }
        r.functionLoadReplace("#!lua name=sums\nredis.register_function('add', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)");
        equal(r.fcall("add", List.of("n"), List.of("5")), 8L);
        equal(r.functionList().get(0).getLibraryName(), "sums");
    }

    static void publishSubscribe(Jedis r) throws Exception {
        List<String> heard = new CopyOnWriteArrayList<>();
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                heard.add(channel + " " + message);
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                heard.add(pattern + " " + channel + " " + message);
            }

            @Override
            public void onSubscribe(String channel, int subscribed) {
                try {
                    psubscribe("n*");
                } catch (Exception e) {
                    heard.add(e.toString());
                }
            }
        };
        Thread thread = new Thread(() -> {
            try (Jedis mine = new Jedis(server(), config())) {
                mine.subscribe(listener, "news");
            }
        });
        thread.start();
        eventually(() -> r.pubsubNumPat() == 1);
        equal(r.publish("news", "hello"), 2L);
        eventually(() -> heard.size() == 2);
        equal(heard, List.of("news hello", "n* news hello"));
        listener.unsubscribe();
        listener.punsubscribe();
        thread.join(5000);
        equal(thread.isAlive(), false);
    }

    static void blocking(Jedis r) throws Exception {
        try (Jedis other = new Jedis(server(), config())) {
            equal(waited(() -> r.blpop(5, "none", "q"), () -> other.rpush("q", "a")), List.of("q", "a"));
            equal(waited(() -> r.brpop(5, "none", "q"), () -> other.rpush("q", "a", "b")), List.of("q", "b"));
            r.del("q");
            equal(waited(() -> r.blmove("q", "m", ListDirection.LEFT, ListDirection.RIGHT, 5), () -> other.lpush("q", "b")), "b");
            equal(waited(() -> r.brpoplpush("q", "m", 5), () -> other.lpush("q", "c")), "c");
            var popped = waited(() -> r.blmpop(5, ListDirection.LEFT, 2, "none", "q"), () -> other.rpush("q", "a", "b", "c"));
            equal(List.of(popped.getKey(), popped.getValue(), r.lrange("q", 0, -1)), List.of("q", List.of("a", "b"), List.of("c")));
            var member = waited(() -> r.bzpopmin(5, "none", "z"), () -> other.zadd("z", Map.of("a", 1.0, "b", 2.5)));
            equal(List.of(member.getKey(), member.getValue().getElement(), member.getValue().getScore()), List.of("z", "a", 1.0));
            r.del("z");
            equal(waited(() -> r.bzpopmax(5, "z"), () -> other.zadd("z", Map.of("a", 1.0, "b", 2.5))).getValue().getElement(), "b");
            r.del("z");
            equal(waited(() -> r.bzmpop(5, SortedSetOption.MIN, "z"), () -> other.zadd("z", 1, "a")).getValue().get(0).getElement(), "a");
            var read = waited(
                () -> r.xread(XReadParams.xReadParams().block(5000), Map.of("x", StreamEntryID.XREAD_NEW_ENTRY)),
                () -> other.xadd("x", StreamEntryID.NEW_ENTRY, Map.of("f", "v")));
            equal(read.get(0).getValue().get(0).getFields(), Map.of("f", "v"));
            r.xgroupCreate("x", "g", StreamEntryID.XGROUP_LAST_ENTRY, false);
            var undelivered = Map.of("x", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY);
            var delivered = waited(
                () -> r.xreadGroup("g", "c", XReadGroupParams.xReadGroupParams().block(5000), undelivered),
                () -> other.xadd("x", StreamEntryID.NEW_ENTRY, Map.of("f", "w")));
            equal(delivered.get(0).getValue().get(0).getFields(), Map.of("f", "w"));
        }
        r.del("q");
        equal(r.blpop(0.2, "q"), null);
    }

    static void theServer(Jedis r) {
        equal(List.of(r.ping(), r.echo("x"), r.clientSetname("me"), r.clientGetname()), List.of("PONG", "x", "OK", "me"));
        equal(List.of(r.clientList().contains("name=me"), r.clientInfo().contains("resp=" + protocol.version())), List.of(true, true));
        equal(r.configGet("maxmemory"), Map.of("maxmemory", "0"));
        equal(r.info("server").contains("redis_version:"), true);
        equal(r.aclWhoAmI(), "default");
        equal(List.of(r.select(3), r.set("here", "1"), r.dbSize(), r.select(0), r.exists("here")), List.of("OK", "OK", 1L, "OK", false));
    }

    /** The library wants RESP3, and a server that says it is 7.4 or younger. */
    static void clientSideCaching(Jedis r) throws Exception {
        r.set("c", "1");
        try (UnifiedJedis cached = new UnifiedJedis(server(), config(), CacheConfig.builder().maxSize(100).build())) {
            cached.get("c");
            r.configResetStat();
            for (int n = 0; n < 100; n++) equal(cached.get("c"), "1");
            equal(List.of(r.info("commandstats").contains("cmdstat_get:"), cached.getCache().getSize()), List.of(false, 1));
            r.set("c", "2");
            eventually(() -> "2".equals(cached.get("c")));
            r.flushAll();
            eventually(() -> cached.get("c") == null);
        }
    }

    public static void main(String[] arguments) {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("strings and keys", Main::stringsAndKeys);
        cases.put("hashes, lists, sets, sorted sets, positions, HyperLogLogs", Main::collections);
        cases.put("streams", Main::streams);
        cases.put("pipelines and transactions", Main::pipelinesAndTransactions);
        cases.put("scripts and functions", Main::scriptsAndFunctions);
        cases.put("publish and subscribe", Main::publishSubscribe);
        cases.put("blocking", Main::blocking);
        cases.put("the server", Main::theServer);
        for (String way : List.of("RESP2", "RESP3", "TLS")) {
            if (way.equals("RESP3") && !REFERENCE) cases.put("client-side caching", Main::clientSideCaching);
            cases.forEach((name, work) -> add(name + ", " + way, () -> {
                protocol = way.equals("RESP2") ? RedisProtocol.RESP2 : RedisProtocol.RESP3;
                tls = way.equals("TLS") ? tls() : null;
                try (Jedis r = new Jedis(server(), config())) {
                    r.flushAll();
                    work.run(r);
                }
            }));
        }
        run();
    }
}
