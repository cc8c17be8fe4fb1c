// Two servers of Socket.IO beside each other, by way of a server.

import { createServer } from "node:http";

import { createAdapter } from "@socket.io/redis-adapter";
import { createClient } from "redis";
import { Server } from "socket.io";
import { io } from "socket.io-client";

import { add, equal, eventually, port, run } from "../checks.mjs";

async function start() {
  const publisher = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
  const subscriber = await publisher.duplicate().connect();
  const http = createServer();
  const server = new Server(http, { adapter: createAdapter(publisher, subscriber) });
  server.on("connection", (socket) => socket.on("join", (room, done) => Promise.resolve(socket.join(room)).then(done)));
  server.on("add", (a, b, done) => done(a + b));
  await new Promise((ready) => http.listen(0, "127.0.0.1", ready));
  return { server, url: `http://127.0.0.1:${http.address().port}` };
}

async function connect(url) {
  const socket = io(url, { transports: ["websocket"] });
  const heard = [];
  socket.onAny((...words) => heard.push(words));
  await new Promise((ready) => socket.on("connect", ready));
  return { socket, heard };
}

const [left, right] = [await start(), await start()];
const [one, other] = [await connect(left.url), await connect(right.url)];

add("messages reach the clients of both servers", async () => {
  left.server.emit("news", 1);
  right.server.emit("news", 2);
  await eventually(() => one.heard.length === 2 && other.heard.length === 2);
  equal(one.heard.map(([, n]) => n).sort(), [1, 2]);
});

add("rooms reach across servers", async () => {
  await other.socket.emitWithAck("join", "room");
  equal((await left.server.in("room").fetchSockets()).length, 1);
  left.server.to("room").emit("inside", "x");
  await eventually(() => other.heard.some(([name]) => name === "inside"));
  equal(one.heard.some(([name]) => name === "inside"), false);
});

add("servers ask each other", async () => {
  equal(await left.server.serverSideEmitWithAck("add", 2, 3), [5]);
  equal((await right.server.fetchSockets()).length, 2);
});

await run();
