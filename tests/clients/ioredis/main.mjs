// ioredis against a server.

import { Redis } from "ioredis";

import { add, certificates, equal, eventually, holds, port, reference, run, securePort, sleep, socket, waited } from "../checks.mjs";

const cases = {
  async "strings and keys"(r) {
    equal(await r.set("a", "1", "EX", 100), "OK");
    equal(await r.set("a", "2", "NX"), null);
    equal(await r.set("a", "2", "XX", "GET"), "1");
    equal([await r.incr("n"), await r.incrby("n", 5), await r.decr("n"), await r.incrbyfloat("f", 1.5)], [1, 6, 5, "1.5"]);
    equal(await r.mset({ x: 1, y: 2 }), "OK");
    equal(await r.mget("x", "none", "y"), ["1", null, "2"]);
    equal([await r.append("x", "bc"), await r.getrange("x", 1, -1), await r.strlen("x")], [3, "bc", 3]);
    equal([await r.setbit("b", 7, 1), await r.bitcount("b"), await r.bitfield("b", "GET", "u8", 0)], [0, 1, [1]]);
    equal([await r.expire("x", 100), (await r.pttl("x")) > 90_000, await r.persist("x")], [1, true, 1]);
    equal([await r.rename("x", "z"), await r.copy("z", "zz"), await r.del("z", "none"), await r.unlink("zz")], ["OK", 1, 1, 1]);
    equal([await r.type("a"), await r.exists("a", "none"), await r.object("ENCODING", "a")], ["string", 1, "int"]);
    equal(await r.getBuffer("a"), Buffer.from("2"));
    await r.set("binary", Buffer.from([0, 255, 13, 10]));
    equal(await r.getBuffer("binary"), Buffer.from([0, 255, 13, 10]));
    await r.restore("again", 0, await r.dumpBuffer("binary"));
    equal(await r.getBuffer("again"), Buffer.from([0, 255, 13, 10]));
  },

  async "iterators over SCAN"(r) {
    await r.mset(Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`key:${n}`, n])));
    const seen = new Set();
    for await (const keys of r.scanStream({ match: "key:*", count: 20 })) keys.forEach((key) => seen.add(key));
    equal(seen.size, 500);
    await r.sadd("s", Array.from({ length: 500 }, (_, n) => n));
    const members = new Set();
    for await (const some of r.sscanStream("s")) some.forEach((member) => members.add(member));
    equal(members.size, 500);
  },

  async hashes(r) {
    equal(await r.hset("h", { a: 1, b: 2 }), 2);
    equal([await r.hgetall("h"), await r.hmget("h", "a", "none"), await r.hincrby("h", "a", 4)], [{ a: "1", b: "2" }, ["1", null], 5]);
    equal([await r.hlen("h"), await r.hexists("h", "b"), await r.hdel("h", "b"), await r.hkeys("h")], [2, 1, 1, ["a"]]);
    if (!reference) equal([await r.hexpire("h", 100, "FIELDS", 1, "a"), await r.httl("h", "FIELDS", 1, "a")], [[1], [100]]);
  },

  async lists(r) {
    equal([await r.rpush("l", 1, 2, 3), await r.lpush("l", 0), await r.lrange("l", 0, -1)], [3, 4, ["0", "1", "2", "3"]]);
    equal([await r.lpop("l"), await r.rpop("l", 2), await r.lmove("l", "m", "LEFT", "RIGHT")], ["0", ["3", "2"], "1"]);
    equal([await r.lpos("m", "1"), await r.linsert("m", "BEFORE", "1", "0"), await r.llen("m")], [0, 2, 2]);
  },

  async "sets and sorted sets"(r) {
    equal([await r.sadd("s", "a", "b"), await r.sadd("t", "b"), await r.sinter("s", "t"), await r.smismember("s", "a", "z")], [2, 1, ["b"], [1, 0]]);
    equal([await r.zadd("z", 1, "a", 2.5, "b"), await r.zscore("z", "b"), await r.zrange("z", 0, -1)], [2, "2.5", ["a", "b"]]);
    equal((await r.zrange("z", 0, -1, "WITHSCORES")).flat().map(String), ["a", "1", "b", "2.5"]);
    equal([await r.zrank("z", "b"), await r.zincrby("z", 1, "a"), await r.zcount("z", "(2", "+inf")], [1, "2", 1]);
    equal((await r.zpopmax("z")).flat().map(String), ["b", "2.5"]);
  },

  async "streams, positions, HyperLogLogs"(r) {
    const id = await r.xadd("x", "*", "f", "v");
    equal([await r.xlen("x"), await r.xrange("x", "-", "+")], [1, [[id, ["f", "v"]]]]);
    equal(await r.xgroup("CREATE", "x", "g", "0"), "OK");
    equal((await r.xreadgroup("GROUP", "g", "c", "COUNT", 10, "STREAMS", "x", ">")).flat(3).includes(id), true);
    equal([await r.xack("x", "g", id), (await r.xpending("x", "g"))[0]], [1, 0]);
    equal([await r.geoadd("g", 13.361389, 38.115556, "Palermo"), await r.geohash("g", "Palermo")], [1, ["sqc8b49rny0"]]);
    equal([await r.pfadd("p", "a", "b"), await r.pfcount("p")], [1, 2]);
  },

  async "pipelines and transactions"(r) {
    equal(await r.pipeline().set("t", 1).incr("t").get("t").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
    equal(await r.multi().incr("t").lpush("l", "x").exec(), [[null, 3], [null, 1]]);
    const failed = await r.multi().incr("t").lpush("t", "x").exec();
    equal([failed[0], failed[1][0].message.startsWith("WRONGTYPE")], [[null, 4], true]);
    await r.watch("t");
    await r.duplicate().set("t", 10);
    equal(await r.multi().incr("t").exec(), null);
    const batch = r.pipeline();
    for (let n = 0; n < 1000; n++) batch.incr("many");
    equal((await batch.exec()).at(-1), [null, 1000]);
  },

  async "publish and subscribe"(r) {
    const listener = r.duplicate();
    const heard = [];
    listener.on("message", (channel, message) => heard.push([channel, message]));
    listener.on("pmessage", (pattern, channel, message) => heard.push([pattern, channel, message]));
    listener.on("smessage", (channel, message) => heard.push([channel, message]));
    equal([await listener.subscribe("news", "more"), await listener.psubscribe("n*"), await listener.ssubscribe("shard")].length, 3);
    equal([await r.publish("news", "hello"), await r.spublish("shard", "s")], [2, 1]);
    await eventually(() => heard.length === 3);
    equal(heard, [["news", "hello"], ["n*", "news", "hello"], ["shard", "s"]]);
    await listener.unsubscribe("news");
    equal(await r.publish("news", "again"), 1);
    listener.disconnect();
  },

  async blocking(r) {
    const other = r.duplicate();
    // On a busy machine the one that waits may come late, and then $ is behind what is added.
    const isBlocked = async () => !(await other.info("clients")).includes("blocked_clients:0\r\n");
    const after = async (work, call) => {
      const later = eventually(isBlocked).then(() => sleep(100)).then(work);
      return (await Promise.all([waited(call), later]))[0];
    };
    equal(await after(() => other.rpush("q", "a"), () => r.blpop("none", "q", 5)), ["q", "a"]);
    equal(await after(() => other.rpush("q", "a", "b"), () => r.brpop("q", 5)), ["q", "b"]);
    await r.del("q");
    equal(await after(() => other.lpush("q", "b"), () => r.blmove("q", "m", "LEFT", "RIGHT", 5)), "b");
    equal(await after(() => other.lpush("q", "c"), () => r.brpoplpush("q", "m", 5)), "c");
    equal(await after(() => other.rpush("q", "a", "b", "c"), () => r.blmpop(5, 1, "q", "LEFT", "COUNT", 2)), ["q", ["a", "b"]]);
    equal((await after(() => other.zadd("z", 1, "a", 2.5, "b"), () => r.bzpopmin("z", 5))).map(String), ["z", "a", "1"]);
    await r.del("z");
    equal((await after(() => other.zadd("z", 1, "a", 2.5, "b"), () => r.bzpopmax("z", 5))).map(String), ["z", "b", "2.5"]);
    await r.del("z");
    equal((await after(() => other.zadd("z", 1, "a"), () => r.bzmpop(5, 1, "z", "MIN"))).flat(3).map(String), ["z", "a", "1"]);
    holds(await after(() => other.xadd("x", "1-1", "f", "v"), () => r.xread("BLOCK", 5000, "STREAMS", "x", "$")));
    await r.xgroup("CREATE", "x", "g", "$");
    holds(await after(() => other.xadd("x", "2-1", "f", "v"), () => r.xreadgroup("GROUP", "g", "c", "BLOCK", 5000, "STREAMS", "x", ">")));
    await r.del("q");
    equal(await waited(() => r.blpop("q", 0.2)), null);
    other.disconnect();
  },

  async "the server"(r, protocol) {
    holds((await r.client("INFO")).includes(`resp=${protocol}`));
    equal([await r.ping(), await r.echo("x"), (await r.info("server")).includes("redis_version:")], ["PONG", "x", true]);
    equal(await r.client("SETNAME", "me"), "OK");
    holds((await r.client("LIST")).includes("name=me"));
    equal((await r.config("GET", "maxmemory")).at(-1), "0");
    const error = await r.call("NOSUCH").catch((error) => error);
    holds(error.message.includes("unknown command"));
    const overSocket = new Redis(socket);
    equal(await overSocket.ping(), "PONG");
    overSocket.disconnect();
    const other = new Redis({ port, db: 3, enableAutoPipelining: true });
    equal((await Promise.all(Array.from({ length: 100 }, () => other.incr("n")))).at(-1), 100);
    equal([await other.dbsize(), await other.quit()], [1, "OK"]);
  },

  async monitor(r) {
    const monitor = await r.monitor();
    const seen = [];
    monitor.on("monitor", (_, words) => seen.push(words.join(" ")));
    await r.set("monitored", 1);
    await eventually(() => seen.includes("set monitored 1"));
    monitor.disconnect();
  },
};

const connections = [
  ["RESP2", { port, protocol: 2 }],
  ["RESP3", { port, protocol: 3 }],
  ["TLS", { port: securePort, protocol: 3, tls: certificates() }],
];
for (const [way, options] of connections) {
  for (const [name, work] of Object.entries(cases)) {
    add(`${name}, ${way}`, async () => {
      const r = new Redis(options);
      await r.flushall();
      await work(r, options.protocol);
      r.disconnect();
    });
  }
}
await run();
