// node-redis against a server.

import { createClient, createClientPool, WatchError } from "redis";

import { add, equal, eventually, holds, port, reference, run, sleep, socket, waited } from "../checks.mjs";

const url = `redis://127.0.0.1:${port}`;

const cases = {
  async "strings and keys"(r) {
    equal(await r.set("a", "1", { expiration: { type: "EX", value: 100 } }), "OK");
    equal(await r.set("a", "2", { condition: "NX" }), null);
    equal(await r.set("a", "2", { condition: "XX", GET: true }), "1");
    equal([await r.incr("n"), await r.incrBy("n", 5), await r.decr("n"), Number(await r.incrByFloat("f", 1.5))], [1, 6, 5, 1.5]);
    equal(await r.mSet({ x: "1", y: "2" }), "OK");
    equal(await r.mGet(["x", "none", "y"]), ["1", null, "2"]);
    equal([await r.append("x", "bc"), await r.getRange("x", 1, -1), await r.strLen("x")], [3, "bc", 3]);
    equal([await r.setBit("b", 7, 1), await r.bitCount("b")], [0, 1]);
    equal([Number(await r.expire("x", 100)), (await r.pTTL("x")) > 90_000, Number(await r.persist("x"))], [1, true, 1]);
    equal([await r.rename("x", "z"), await r.del(["z", "none"]), await r.type("a"), await r.exists("a")], ["OK", 1, "string", 1]);
    const seen = [];
    await r.mSet(Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`key:${n}`, `${n}`])));
    for await (const keys of r.scanIterator({ MATCH: "key:*", COUNT: 20 })) seen.push(...keys);
    equal(new Set(seen).size, 500);
  },

  async hashes(r) {
    equal(await r.hSet("h", { a: "1", b: "2" }), 2);
    equal({ ...(await r.hGetAll("h")) }, { a: "1", b: "2" });
    equal([await r.hmGet("h", ["a", "none"]), await r.hIncrBy("h", "a", 4), await r.hLen("h")], [["1", null], 5, 2]);
    if (!reference) equal([await r.hExpire("h", "a", 100), await r.hTTL("h", "a")], [[1], [100]]);
  },

  async lists(r) {
    equal([await r.rPush("l", ["1", "2", "3"]), await r.lPush("l", "0"), await r.lRange("l", 0, -1)], [3, 4, ["0", "1", "2", "3"]]);
    equal([await r.lPop("l"), await r.rPopCount("l", 2), await r.lMove("l", "m", "LEFT", "RIGHT"), await r.lLen("m")], ["0", ["3", "2"], "1", 1]);
  },

  async "sets and sorted sets"(r) {
    equal([await r.sAdd("s", ["a", "b"]), await r.sAdd("t", "b"), [...(await r.sInter(["s", "t"]))]], [2, 1, ["b"]]);
    equal(await r.zAdd("z", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }]), 2);
    equal([await r.zScore("z", "b"), await r.zRange("z", 0, -1), await r.zRank("z", "b")], [2.5, ["a", "b"], 1]);
    equal((await r.zRangeWithScores("z", 0, -1)).map(({ value, score }) => [value, score]), [["a", 1], ["b", 2.5]]);
    const top = await r.zPopMax("z");
    equal([top.value, top.score], ["b", 2.5]);
  },

  async "streams, positions, HyperLogLogs"(r) {
    const id = await r.xAdd("x", "*", { f: "v" });
    const [entry] = await r.xRange("x", "-", "+");
    equal([entry.id, { ...entry.message }], [id, { f: "v" }]);
    equal(await r.xGroupCreate("x", "g", "0"), "OK");
    holds(JSON.stringify(await r.xReadGroup("g", "c", { key: "x", id: ">" }, { COUNT: 10 })).includes(id));
    equal([(await r.xPending("x", "g")).pending, await r.xAck("x", "g", id)], [1, 1]);
    equal((await r.xInfoStream("x")).length, 1);
    equal(await r.geoAdd("g", { longitude: 13.361389, latitude: 38.115556, member: "Palermo" }), 1);
    equal(await r.geoHash("g", "Palermo"), ["sqc8b49rny0"]);
    equal([Number(await r.pfAdd("p", ["a", "b"])), await r.pfCount("p")], [1, 2]);
  },

  async transactions(r) {
    equal(await r.multi().set("t", "1").incr("t").get("t").exec(), ["OK", 2, "2"]);
    const other = await r.duplicate().connect();
    await r.watch("t");
    await other.set("t", "10");
    const error = await r.multi().incr("t").exec().catch((error) => error);
    holds(error instanceof WatchError, error);
    equal((await Promise.all(Array.from({ length: 1000 }, () => r.incr("many")))).at(-1), 1000);
    other.destroy();
  },

  async "publish and subscribe"(r) {
    const listener = await r.duplicate().connect();
    const heard = [];
    await listener.subscribe("news", (message, channel) => heard.push([channel, message]));
    await listener.pSubscribe("n*", (message, channel) => heard.push(["n*", channel, message]));
    await listener.sSubscribe("shard", (message, channel) => heard.push([channel, message]));
    equal([await r.publish("news", "hello"), await r.sPublish("shard", "s")], [2, 1]);
    await eventually(() => heard.length === 3);
    equal(heard, [["news", "hello"], ["n*", "news", "hello"], ["shard", "s"]]);
    await listener.unsubscribe();
    await listener.pUnsubscribe();
    equal(await r.publish("news", "again"), 0);
    listener.destroy();
  },

  async blocking(r) {
    const other = await r.duplicate().connect();
    // On a busy machine the one that waits may come late, and then $ is behind what is added.
    const isBlocked = async () => !(await other.info("clients")).includes("blocked_clients:0\r\n");
    const after = async (work, call) => {
      const later = eventually(isBlocked).then(() => sleep(100)).then(work);
      return (await Promise.all([waited(call), later]))[0];
    };
    const scores = [{ score: 1, value: "a" }, { score: 2.5, value: "b" }];
    equal({ ...(await after(() => other.rPush("q", "a"), () => r.blPop(["none", "q"], 5))) }, { key: "q", element: "a" });
    equal({ ...(await after(() => other.rPush("q", ["a", "b"]), () => r.brPop("q", 5))) }, { key: "q", element: "b" });
    await r.del("q");
    equal(await after(() => other.lPush("q", "b"), () => r.blMove("q", "m", "LEFT", "RIGHT", 5)), "b");
    equal(await after(() => other.lPush("q", "c"), () => r.brPopLPush("q", "m", 5)), "c");
    equal(await after(() => other.rPush("q", ["a", "b", "c"]), () => r.blmPop(5, "q", "LEFT", { COUNT: 2 })), ["q", ["a", "b"]]);
    equal({ ...(await after(() => other.zAdd("z", scores), () => r.bzPopMin("z", 5))) }, { key: "z", ...scores[0] });
    await r.del("z");
    equal({ ...(await after(() => other.zAdd("z", scores), () => r.bzPopMax("z", 5))) }, { key: "z", ...scores[1] });
    await r.del("z");
    const { key, members } = await after(() => other.zAdd("z", scores), () => r.bzmPop(5, "z", "MIN"));
    equal([key, members.map((member) => member.value)], ["z", ["a"]]);
    holds(await after(() => other.xAdd("x", "1-1", { f: "v" }), () => r.xRead({ key: "x", id: "$" }, { BLOCK: 5000 })));
    await r.xGroupCreate("x", "g", "$");
    holds(await after(() => other.xAdd("x", "2-1", { f: "v" }), () => r.xReadGroup("g", "c", { key: "x", id: ">" }, { BLOCK: 5000 })));
    await r.del("q");
    equal(await waited(() => r.blPop("q", 0.2)), null);
    other.destroy();
  },

  async "a pool"(_, options) {
    const pool = await createClientPool(options).connect();
    equal((await Promise.all(Array.from({ length: 100 }, () => pool.incr("n")))).sort((a, b) => a - b).at(-1), 100);
    await pool.close();
  },

  async "the server"(r, options) {
    equal([await r.ping(), await r.echo("x"), (await r.info("server")).includes("redis_version:")], ["PONG", "x", true]);
    equal(await r.clientSetName("me"), "OK");
    equal([(await r.clientInfo()).resp, (await r.clientInfo()).name, { ...(await r.configGet("maxmemory")) }], [options.RESP, "me", { maxmemory: "0" }]);
    holds((await r.clientList()).some((client) => client.name === "me"));
    const error = await r.sendCommand(["NOSUCH"]).catch((error) => error);
    holds(error.message.includes("unknown command"));
    const overSocket = await createClient({ ...options, url: undefined, socket: { path: socket } }).connect();
    equal(await overSocket.ping(), "PONG");
    overSocket.destroy();
    const other = await createClient({ ...options, url: `${url}/3` }).connect();
    equal([await other.set("here", "1"), await other.dbSize(), await r.exists("here")], ["OK", 1, 0]);
    await other.close();
  },

  async monitor(r) {
    const monitor = await r.duplicate().connect();
    const seen = [];
    await monitor.monitor((line) => seen.push(line));
    await r.set("monitored", "1");
    await eventually(() => seen.some((line) => /"SET" "monitored" "1"/.test(line)));
    monitor.destroy();
  },
};

for (const RESP of [2, 3]) {
  for (const [name, work] of Object.entries(cases)) {
    add(`${name}, RESP${RESP}`, async () => {
      const options = { url, RESP };
      const r = await createClient(options).connect();
      await r.flushAll();
      await work(r, options);
      r.destroy();
    });
  }
}

add("client-side caching", async () => {
  const cached = await createClient({ url, RESP: 3, clientSideCache: { ttl: 0, maxEntries: 100, evictPolicy: "LRU" } }).connect();
  const other = await createClient({ url }).connect();
  await other.flushAll();
  await other.set("c", "1");
  equal(await cached.get("c"), "1");
  await other.configResetStat();
  for (let n = 0; n < 100; n++) equal(await cached.get("c"), "1");
  holds(!(await other.info("commandstats")).includes("cmdstat_get:"));
  await other.set("c", "2");
  await eventually(async () => (await cached.get("c")) === "2");
  await other.flushAll();
  await eventually(async () => (await cached.get("c")) === null);
  cached.destroy();
  other.destroy();
});

await run();
