// What the Node programs here share: named cases, and the closing line that `cargo xtask clients` counts.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const port = Number(process.env.ALMANDINE_PORT);
export const socket = process.env.ALMANDINE_SOCKET;
// The port with TLS, and the files by which a client is trusted there.
export const securePort = Number(process.env.ALMANDINE_TLS_PORT);
export const certificates = () => {
  const read = (name) => readFileSync(join(process.env.ALMANDINE_CERTIFICATES, name));
  return { ca: read("ca.crt"), cert: read("alice.crt"), key: read("alice.key") };
};
// Set when the server is redis-server 7.0, which lacks what came later.
export const reference = process.env.ALMANDINE_REFERENCE === "1";
export const equal = assert.deepEqual;
export const holds = assert.ok;
export const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));

const cases = [];

export function add(name, work) {
  cases.push([name, work]);
}

export async function eventually(condition, seconds = 5) {
  const end = Date.now() + seconds * 1000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `did not come true within ${seconds} s`);
    await sleep(10);
  }
}

/** What a call that must wait returns. */
export async function waited(call) {
  const started = Date.now();
  const result = await call();
  assert.ok(Date.now() - started > 50, "it did not wait");
  return result;
}

export async function run() {
  let failed = 0;
  for (const [name, work] of cases) {
    try {
      await Promise.race([
        work(),
        new Promise((_, reject) => setTimeout(() => reject(new Error("took more than 20 s")), 20_000).unref()),
      ]);
      console.log(`ok: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED: ${name}\n${error.stack}`);
    }
  }
  console.log(`${cases.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
