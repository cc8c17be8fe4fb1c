// Express' sessions against a server.

import { RedisStore } from "connect-redis";
import express from "express";
import session from "express-session";
import { createClient } from "redis";

import { add, equal, holds, port, run } from "../checks.mjs";

const client = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
await client.flushAll();
const store = new RedisStore({ client, prefix: "session:", ttl: 100 });
const app = express();
app.use(session({ store, secret: "secret", resave: false, saveUninitialized: false }));
app.get("/visit", (request, response) => {
  request.session.visits = (request.session.visits ?? 0) + 1;
  response.send(String(request.session.visits));
});
app.get("/leave", (request, response) => request.session.destroy(() => response.send("bye")));
const server = await new Promise((ready) => {
  const listening = app.listen(0, "127.0.0.1", () => ready(listening));
});
const url = `http://127.0.0.1:${server.address().port}`;

class Browser {
  async visit(path) {
    const response = await fetch(url + path, { headers: this.cookie ? { cookie: this.cookie } : {} });
    this.cookie = response.headers.get("set-cookie")?.split(";")[0] ?? this.cookie;
    return await response.text();
  }
}

add("a session lives in the server", async () => {
  const [one, other] = [new Browser(), new Browser()];
  equal([await one.visit("/visit"), await one.visit("/visit"), await other.visit("/visit"), await one.visit("/visit")], ["1", "2", "1", "3"]);
  const keys = await client.keys("session:*");
  equal(keys.length, 2);
  for (const key of keys) holds((await client.ttl(key)) > 90);
  equal(await store.length(), 2);
  await one.visit("/leave");
  equal([(await client.keys("session:*")).length, await one.visit("/visit")], [1, "1"]);
});

add("all sessions are found and cleared", async () => {
  for (let n = 0; n < 150; n++) await new Browser().visit("/visit");
  equal([(await store.ids()).length >= 150, (await store.all()).length >= 150], [true, true]);
  await store.clear();
  equal(await store.length(), 0);
});

await run();
