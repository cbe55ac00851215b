// The test vectors of the protocol: each is read with its meaning, and written so that it reads as the same.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Unreadable, decode, encode } from "../lib/codec.js";
import {
  argument, callOptions, contentId, encodeFailure, functionFrames, functionName, readArguments, readFailure, readOptions,
} from "../lib/payloads.js";
import { DIRECTIONS } from "../lib/schema.js";

const load = (name) => JSON.parse(readFileSync(new URL(`../../../protocol/vectors/${name}.json`, import.meta.url), "utf8"));
const unhex = (text) => Buffer.from(text, "hex");

function asJson(value) {
  if (Buffer.isBuffer(value)) return value.toString("hex");
  if (Array.isArray(value)) return value.map(asJson);
  return typeof value === "bigint" ? Number(value) : value;
}

function meaning(items) {
  return items.map(([kind, fields]) => [kind, Object.fromEntries(Object.entries(fields).map(([k, v]) => [k, asJson(v)]))]);
}

for (const direction of Object.values(DIRECTIONS)) {
  const vectors = load(direction.name).messages;
  test(`${direction.name}: ${vectors.length} vectors are read and written`, () => {
    const kinds = new Set();
    for (const vector of vectors) {
      const message = [vector.header, ...vector.frames].map(unhex);
      const expected = vector.batches.flatMap((batch) => batch.items.map((item) => [batch.kind, item]));
      const found = decode(direction, message);
      assert.deepEqual(meaning(found.items), expected, vector.title);
      assert.deepEqual([found.number, found.heard], [vector.number, vector.heard]);
      const again = decode(direction, encode(direction, found.items, found.number, found.heard));
      assert.deepEqual(meaning(again.items), expected, `${vector.title}, written`);
      vector.batches.forEach((batch) => kinds.add(batch.kind));
    }
    assert.deepEqual(kinds, new Set(direction.byName.keys()));
  });
}

test("messages that break a rule are refused", () => {
  const { direction, messages } = load("refused");
  assert.ok(messages.length > 3);
  for (const { title, header, frames } of messages) {
    assert.throws(() => decode(DIRECTIONS[direction], [header, ...frames].map(unhex)), Unreadable, title);
  }
});

test("a corrupt message is read or refused, and takes no memory for the sizes that it claims", () => {
  let seed = 7;
  const chance = (below) => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
  };
  let refused = 0;
  const before = process.memoryUsage().rss;
  for (const direction of Object.values(DIRECTIONS)) {
    for (const vector of load(direction.name).messages) {
      for (let round = 0; round < 20; round++) {
        const message = [vector.header, ...vector.frames].map(unhex);
        for (let flips = 1 + chance(8); flips > 0; flips--) message[0][chance(message[0].length)] ^= 1 << chance(8);
        if (chance(4) === 0) message[0] = message[0].subarray(0, chance(message[0].length));
        try {
          decode(direction, message);
        } catch (error) {
          assert.ok(error instanceof Unreadable, error);
          refused += 1;
        }
      }
    }
  }
  assert.ok(refused > 100);
  assert.ok(process.memoryUsage().rss - before < 500e6);
});

test("parts of payloads are read with their meaning", () => {
  const parts = load("parts");
  const failure = readFailure(unhex(parts.taskFailure.payload));
  const { type_name: typeName, text, traceback, bases } = parts.taskFailure.meaning;
  assert.deepEqual(failure, { typeName, text, traceback, bases });
  assert.deepEqual(readFailure(encodeFailure(failure)), { ...failure, bases: [] });
  const options = readOptions(unhex(parts.runOptions.payload));
  assert.equal(options.timeoutMs, parts.runOptions.meaning.timeout_ms);
  assert.deepEqual(Object.entries(options.capabilities), parts.runOptions.meaning.capabilities);
  assert.deepEqual(readOptions(callOptions("area", { timeoutMs: 5 })), { timeoutMs: 5, capabilities: { "call:area": 0 } });
  for (const part of [parts.arguments, parts.argumentsWithResults, parts.argumentsWithFrames]) {
    const read = readArguments(unhex(part.payload));
    assert.deepEqual(read.map(({ kind, name, data }) => ({ kind, name, data: data.toString("hex") })), part.meaning);
    const written = Buffer.concat(read.map(({ kind, name, data }) => argument(kind, data, name)));
    assert.equal(written.toString("hex"), part.payload);
  }
});

test("a named function has the id of its content", () => {
  const { frames, id, name } = load("parts").namedFunction;
  assert.deepEqual(functionFrames(name).map(asJson), frames);
  assert.equal(functionName(frames.map(unhex)), name);
  assert.equal(contentId(frames.map(unhex)).toString("hex"), id);
  assert.equal(functionName([Buffer.alloc(0), Buffer.from("pickle")]), null);
});
