// Payloads, which the scheduler forwards unread: named functions, JSON as values, options, failures.

import blake from "blakejs";
import { CompositeList, Message, utils } from "capnp-es";
import { ID_BYTES, readMessage, readText, structClass } from "./codec.js";

const HEADER_BYTES = 7;
export const VALUE = 0;
export const OBJECT = 1;
export const OWN_OBJECT = 3;
export const FRAMES = 4;

/** Values above this size are frames of their task or result. */
export const INLINE_BYTES = 16 * 1024;
/** Arguments above this size, over all arguments of a task, are objects. */
export const CARRIED_BYTES = 1024 * 1024;
const NAMED = Buffer.from("json");

/** The statuses of results that are used here. */
export const STATUS = { success: 0, failed: 1, canceled: 2, processorDied: 3, notFound: 6, missingObjects: 7, timedOut: 9 };
export const STATUS_NAMES = [
  "success", "failed", "canceled", "processor died", "worker died", "no worker", "not found", "missing objects",
  "internal error", "timed out",
];

/** Return a value as JSON in UTF-8. */
export function toJson(value) {
  const text = JSON.stringify(value === undefined ? null : value);
  if (text === undefined) throw new TypeError(`not a JSON value: ${String(value)}`);
  return Buffer.from(text);
}

export function fromJson(bytes) {
  return JSON.parse(Buffer.from(bytes).toString("utf8"));
}

// Functions

/** Return the frames of the function with this name. */
export function functionFrames(name) {
  return [NAMED, Buffer.from(name)];
}

/** Return the name that these frames call; null if they are another function. */
export function functionName(frames) {
  return frames.length === 2 && NAMED.equals(frames[0]) ? Buffer.from(frames[1]).toString("utf8") : null;
}

/** Return the id of a function: the hash of its frames. */
export function contentId(frames) {
  const parts = frames.flatMap((frame) => {
    const size = Buffer.alloc(8);
    size.writeBigUInt64BE(BigInt(frame.length));
    return [size, frame];
  });
  return Buffer.from(blake.blake2b(Buffer.concat(parts), undefined, ID_BYTES));
}

// The block of arguments

/** Return an argument of a call; without a name, it is positional. */
export function argument(kind, data, name = "") {
  const encoded = Buffer.from(name);
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt8(kind, 0);
  header.writeUInt16LE(encoded.length, 1);
  header.writeUInt32LE(data.length, 3);
  return Buffer.concat([header, encoded, data]);
}

/** Return an argument of a call that is a frame of its task. */
export function framesArgument(frame, name = "") {
  const data = Buffer.alloc(12);
  data.writeUInt32LE(1, 0);
  data.writeBigUInt64LE(BigInt(frame.length), 4);
  return argument(FRAMES, data, name);
}

/** Return the arguments in a block: kind, name and data of each. */
export function readArguments(block) {
  const found = [];
  let offset = 0;
  while (offset < block.length) {
    const nameEnd = offset + HEADER_BYTES + block.readUInt16LE(offset + 1);
    const dataEnd = nameEnd + block.readUInt32LE(offset + 3);
    if (dataEnd > block.length) throw new RangeError("the last argument is cut off");
    const name = block.toString("utf8", offset + HEADER_BYTES, nameEnd);
    found.push({ kind: block.readUInt8(offset), name, data: block.subarray(nameEnd, dataEnd) });
    offset = dataEnd;
  }
  return found;
}

/** Return the ids in a sequence of ids. */
export function splitIds(row) {
  return Array.from({ length: row.length / ID_BYTES }, (_, place) => row.subarray(place * ID_BYTES, (place + 1) * ID_BYTES));
}

// Structs of common.capnp: fields at their places, as the compiler of capnp-es would write it

const Options = structClass("RunOptions", 24, 4);
const Capabilities = CompositeList(structClass("Capability", 8, 1));
const Failure = structClass("TaskFailure", 0, 6);

/** Return the `RunOptions` of a call of a function by its name. */
export function callOptions(name, { timeoutMs = 0, capabilities = {} } = {}) {
  const message = new Message();
  const options = message.initRoot(Options);
  utils.setUint32(8, timeoutMs, options);
  const wanted = Object.entries({ ...capabilities, [`call:${name}`]: 0 }).sort();
  const list = utils.initList(0, Capabilities, wanted.length, options);
  wanted.forEach(([capability, amount], place) => {
    utils.setText(0, capability, list.get(place));
    utils.setUint64(0, BigInt(amount), list.get(place));
  });
  return Buffer.from(message.toArrayBuffer());
}

/** Return the fields of `RunOptions` that an agent uses. */
export function readOptions(bytes) {
  if (!bytes.length) return { timeoutMs: 0, capabilities: {} };
  const options = readMessage(bytes);
  const capabilities = options.structs(0).map((each) => [each.text(0), Number(each.number(0, 8))]);
  return { timeoutMs: options.number(8, 4), capabilities: Object.fromEntries(capabilities) };
}

/** Return a `TaskFailure`. */
export function encodeFailure({ typeName, text, traceback }) {
  const message = new Message();
  const failure = message.initRoot(Failure);
  utils.setText(0, typeName, failure);
  utils.setText(1, text, failure);
  utils.setText(2, traceback, failure);
  return Buffer.from(message.toArrayBuffer());
}

export function readFailure(bytes) {
  const failure = readMessage(bytes);
  const [typeName, text, traceback] = [0, 1, 2].map((place) => failure.text(place));
  return { typeName, text, traceback, bases: failure.list(4).map(readText) };
}
