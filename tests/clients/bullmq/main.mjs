// BullMQ, whose every step is a script, and scripts by ioredis' defineCommand.

import { EventEmitter } from "node:events";

import { FlowProducer, Job, Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";

import { add, equal, eventually, holds, port, run, sleep } from "../checks.mjs";

const connection = { host: "127.0.0.1", port };
EventEmitter.defaultMaxListeners = 100;
const redis = new Redis({ ...connection, maxRetriesPerRequest: null });
await redis.flushall();

let number = 0;

/** A queue of its own with its events, and a worker where one is wanted. */
async function queue(work, options = {}) {
  const name = `queue${(number += 1)}`;
  const made = { queue: new Queue(name, { connection }), events: new QueueEvents(name, { connection }) };
  await made.events.waitUntilReady();
  if (work) {
    made.worker = new Worker(name, work, { connection, ...options });
    await made.worker.waitUntilReady();
  }
  made.close = () => Promise.all([made.worker?.close(), made.events.close(), made.queue.close()]);
  return made;
}

add("jobs are done and their results are had", async () => {
  const { queue: q, events, close } = await queue(async (job) => job.data.n * 2);
  const jobs = await Promise.all(Array.from({ length: 50 }, (_, n) => q.add("double", { n })));
  equal(await Promise.all(jobs.map((job) => job.waitUntilFinished(events))), jobs.map((job) => job.data.n * 2));
  await eventually(async () => (await q.getJobCounts("completed", "active", "waiting")).completed === 50);
  equal((await q.getJobCounts("active", "waiting")).waiting, 0);
  await close();
});

add("jobs in bulk, in their order, by priority", async () => {
  const done = [];
  const { queue: q, close } = await queue();
  await q.addBulk([3, 1, 2].map((n) => ({ name: "job", data: { n }, opts: { priority: n } })));
  await q.add("job", { n: 0 });
  const worker = new Worker(q.name, async (job) => void done.push(job.data.n), { connection });
  await eventually(() => done.length === 4);
  equal(done, [0, 1, 2, 3]);
  await worker.close();
  await close();
});

add("a failure is tried again, and kept", async () => {
  let tries = 0;
  const { queue: q, events, close } = await queue(async () => {
    tries += 1;
    throw new Error("on purpose");
  });
  const job = await q.add("fail", {}, { attempts: 3, backoff: { type: "fixed", delay: 20 } });
  await job.waitUntilFinished(events).then(() => holds(false), (error) => equal(error.message, "on purpose"));
  equal([tries, await job.getState(), (await q.getFailed()).map((other) => other.id)], [3, "failed", [job.id]]);
  await job.retry();
  await eventually(() => tries === 4);
  await close();
});

add("delayed jobs wait, and are promoted", async () => {
  const { queue: q, events, close } = await queue(async () => "done");
  const started = Date.now();
  const job = await q.add("later", {}, { delay: 200 });
  equal(await job.getState(), "delayed");
  equal(await job.waitUntilFinished(events), "done");
  holds(Date.now() - started >= 190);
  const other = await q.add("much later", {}, { delay: 3_600_000 });
  await other.promote();
  equal(await other.waitUntilFinished(events), "done");
  await close();
});

add("a parent waits for its children", async () => {
  const { queue: q, events, close } = await queue(async (job) => {
    const children = Object.values(await job.getChildrenValues());
    return children.reduce((sum, value) => sum + value, job.data.n);
  });
  const flow = new FlowProducer({ connection });
  const child = (n) => ({ name: "child", queueName: q.name, data: { n } });
  const tree = await flow.add({ name: "parent", queueName: q.name, data: { n: 1 }, children: [child(10), child(100), { ...child(1000), children: [child(5)] }] });
  equal(await tree.job.waitUntilFinished(events), 1116);
  await flow.close();
  await close();
});

add("the same job is not added twice; one is removed", async () => {
  const { queue: q, close } = await queue();
  const [one, two] = [await q.add("once", { n: 1 }, { jobId: "own" }), await q.add("once", { n: 2 }, { jobId: "own" })];
  equal([one.id, two.id, await q.count()], ["own", "own", 1]);
  equal((await Job.fromId(q, "own")).data, { n: 1 });
  const [first, again] = await Promise.all([1, 2].map((n) => q.add("some", { n }, { deduplication: { id: "d" } })));
  equal([first.id === again.id, await q.count()], [true, 2]);
  await (await Job.fromId(q, "own")).remove();
  equal(await q.count(), 1);
  await q.drain();
  equal(await q.count(), 0);
  await close();
});

add("a limit holds the worker back; a pause stops it", async () => {
  const times = [];
  const { queue: q, close } = await queue(async () => void times.push(Date.now()), { limiter: { max: 2, duration: 300 } });
  // The handler of the first job may be late.
  const started = Date.now();
  await q.addBulk(Array.from({ length: 5 }, (_, n) => ({ name: "limited", data: { n } })));
  await eventually(() => times.length === 5);
  holds(times[4] - started >= 550, `${times[4] - started} ms`);
  await q.pause();
  await q.add("paused", {});
  await sleep(100);
  equal([times.length, await q.isPaused()], [5, true]);
  await q.resume();
  await eventually(() => times.length === 6);
  await close();
});

add("a repeated job comes again; progress and logs are kept", async () => {
  let seen = 0;
  const { queue: q, events, close } = await queue(async (job) => {
    seen += 1;
    await job.updateProgress(50);
    await job.log("a line");
  });
  await q.upsertJobScheduler("ticks", { every: 100 });
  await eventually(() => seen >= 3);
  await q.removeJobScheduler("ticks");
  const job = await q.add("told", {});
  await job.waitUntilFinished(events);
  equal([(await Job.fromId(q, job.id)).progress, (await q.getJobLogs(job.id)).logs], [50, ["a line"]]);
  await q.obliterate({ force: true });
  await close();
});

add("a stalled job goes to another worker", async () => {
  const { queue: q, events, close } = await queue();
  const job = await q.add("stalls", {});
  const stuck = new Worker(q.name, () => new Promise(() => {}), { connection, lockDuration: 200, lockRenewTime: 60_000, skipStalledCheck: true });
  await eventually(async () => (await job.getState()) === "active");
  const other = new Worker(q.name, async () => "saved", { connection, stalledInterval: 100, maxStalledCount: 3 });
  equal(await job.waitUntilFinished(events), "saved");
  await Promise.all([other.close(), stuck.close(true)]);
  await close();
});

add("defineCommand: keys, arguments, buffers, pipelines, errors", async () => {
  redis.defineCommand("echoes", { numberOfKeys: 2, lua: "return {KEYS[1], KEYS[2], ARGV[1], ARGV[2]}" });
  redis.defineCommand("bounded", {
    numberOfKeys: 1,
    lua: "local n = redis.call('incr', KEYS[1]) if n > tonumber(ARGV[1]) then redis.call('set', KEYS[1], ARGV[1]) return redis.error_reply('FULL') end return n",
  });
  redis.defineCommand("any", { lua: "return {#KEYS, #ARGV, 3.9, true, false}" });
  equal(await redis.echoes("a", "b", "1", "2"), ["a", "b", "1", "2"]);
  equal((await redis.echoesBuffer("a", "b", Buffer.from([0, 255]), "")).map((part) => part.toString("latin1")), ["a", "b", "\0\xff", ""]);
  equal(await redis.any(2, "k", "l", "x"), [2, 1, 3, 1, null]);
  await redis.script("FLUSH");
  const results = await redis.pipeline().bounded("n", 2).bounded("n", 2).bounded("n", 2).get("n").exec();
  equal(results.map(([error, value]) => (error ? error.message.includes("FULL") : value)), [1, 2, true, "2"]);
});

await run();
