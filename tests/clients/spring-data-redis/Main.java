// Spring Data Redis against a server.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;

import org.springframework.data.geo.Point;
import org.springframework.data.redis.cache.RedisCacheConfiguration;
import org.springframework.data.redis.cache.RedisCacheManager;
import org.springframework.data.redis.connection.RedisConnection;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.StreamOffset;
import org.springframework.data.redis.connection.stream.StreamReadOptions;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.ScanOptions;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.PatternTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;

public class Main extends Checks {
    interface Case {
        void run(StringRedisTemplate r) throws Exception;
    }

    static LettuceConnectionFactory factory;

    static void everyType(StringRedisTemplate r) {
        r.opsForValue().set("a", "1", Duration.ofSeconds(100));
        equal(List.of(r.opsForValue().increment("a"), r.opsForValue().get("a"), r.getExpire("a") > 90), List.of(2L, "2", true));
        equal(r.opsForValue().setIfAbsent("a", "x"), false);
        r.opsForHash().putAll("h", Map.of("a", "1", "b", "2"));
        equal(r.opsForHash().entries("h"), Map.of("a", "1", "b", "2"));
        equal(List.of(r.opsForList().rightPushAll("l", "1", "2"), r.opsForList().range("l", 0, -1)), List.of(2L, List.of("1", "2")));
        equal(List.of(r.opsForSet().add("s", "a", "b"), r.opsForSet().members("s")), List.of(2L, Set.of("a", "b")));
        equal(List.of(r.opsForZSet().add("z", "a", 1.5), r.opsForZSet().score("z", "a")), List.of(true, 1.5));
        equal(List.of(r.opsForGeo().add("g", new Point(13.361389, 38.115556), "Palermo"), r.opsForGeo().hash("g", "Palermo")), List.of(1L, List.of("sqc8b49rny0")));
        equal(List.of(r.opsForHyperLogLog().add("p", "a", "b"), r.opsForHyperLogLog().size("p")), List.of(1L, 2L));
        r.opsForStream().add(MapRecord.create("x", Map.of("f", "v")));
        r.opsForStream().createGroup("x", ReadOffset.from("0"), "group");
        var read = r.opsForStream().read(Consumer.from("group", "c"), StreamOffset.create("x", ReadOffset.lastConsumed()));
        equal(List.of(read.get(0).getValue(), r.opsForStream().acknowledge("group", read.get(0))), List.of(Map.of("f", "v"), 1L));
        for (int n = 0; n < 300; n++) r.opsForValue().set("key:" + n, "v");
        try (var cursor = r.scan(ScanOptions.scanOptions().match("key:*").count(20).build())) {
            equal(cursor.stream().distinct().count(), 300L);
        }
    }

    static void transactionsAndPipelines(StringRedisTemplate r) {
        List<Object> results = r.execute(new SessionCallback<>() {
            @Override
            @SuppressWarnings("unchecked")
            public <K, V> List<Object> execute(RedisOperations<K, V> operations) {
                operations.multi();
                operations.opsForValue().increment((K) "t");
                operations.opsForValue().increment((K) "t");
                return operations.exec();
            }
        });
        equal(results, List.of(1L, 2L));
        equal(r.executePipelined((RedisCallback<Object>) connection -> {
            for (int n = 0; n < 500; n++) connection.stringCommands().incr("n".getBytes());
            return null;
        }).get(499), 500L);
    }

    static void publishSubscribe(StringRedisTemplate r) throws Exception {
        List<String> heard = new CopyOnWriteArrayList<>();
        RedisMessageListenerContainer container = new RedisMessageListenerContainer();
        container.setConnectionFactory(factory);
        container.addMessageListener((message, pattern) -> heard.add(message.toString()), ChannelTopic.of("news"));
        container.addMessageListener((message, pattern) -> heard.add(message.toString()), PatternTopic.of("n*"));
        container.afterPropertiesSet();
        container.start();
        equal(r.convertAndSend("news", "hello"), 2L);
        eventually(() -> heard.size() == 2);
        equal(heard, List.of("hello", "hello"));
        container.stop();
        container.destroy();
    }

    static void blocking(StringRedisTemplate r) throws Exception {
        var seconds = Duration.ofSeconds(5);
        equal(waited(() -> r.opsForList().leftPop("q", seconds), () -> r.opsForList().rightPush("q", "a")), "a");
        equal(waited(() -> r.opsForList().rightPopAndLeftPush("q", "m", seconds), () -> r.opsForList().rightPush("q", "b")), "b");
        equal(waited(() -> r.opsForZSet().popMin("z", seconds).getValue(), () -> r.opsForZSet().add("z", "c", 1)), "c");
        var block = StreamReadOptions.empty().block(seconds);
        var read = waited(() -> r.opsForStream().read(block, StreamOffset.latest("x")), () -> r.opsForStream().add(MapRecord.create("x", Map.of("f", "v"))));
        equal(read.get(0).getValue(), Map.of("f", "v"));
        equal(r.opsForList().leftPop("q", Duration.ofSeconds(1)), null);
    }

    static void cache(StringRedisTemplate r) {
        RedisCacheManager manager = RedisCacheManager.builder(factory).cacheDefaults(RedisCacheConfiguration.defaultCacheConfig().entryTtl(Duration.ofSeconds(100))).build();
        var cache = manager.getCache("things");
        equal(cache.get("a", () -> "computed"), "computed");
        cache.put("b", 7);
        equal(List.of(cache.get("b").get(), r.hasKey("things::b"), cache.putIfAbsent("b", 8).get()), List.of(7, true, 7));
        cache.evict("b");
        equal(cache.get("b"), null);
        cache.clear();
        equal(cache.get("a"), null);
    }

    static void theServer(StringRedisTemplate r) {
        try (RedisConnection connection = factory.getConnection()) {
            equal(connection.ping(), "PONG");
            equal(connection.serverCommands().info("server").getProperty("redis_mode"), "standalone");
            equal(connection.serverCommands().getConfig("maxmemory").getProperty("maxmemory"), "0");
        }
    }

    static void add(StringRedisTemplate template, String name, Case work) {
        add(name, () -> {
            template.execute((RedisCallback<Object>) connection -> {
                connection.serverCommands().flushAll();
                return null;
            });
            work.run(template);
        });
    }

    public static void main(String[] arguments) {
        factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", PORT));
        factory.afterPropertiesSet();
        factory.start();
        StringRedisTemplate template = new StringRedisTemplate(factory);
        add(template, "every type", Main::everyType);
        add(template, "transactions and pipelines", Main::transactionsAndPipelines);
        add(template, "publish and subscribe", Main::publishSubscribe);
        add(template, "blocking", Main::blocking);
        add(template, "a cache", Main::cache);
        add(template, "the server", Main::theServer);
        run();
    }
}
