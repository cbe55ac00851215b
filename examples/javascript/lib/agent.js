// Agent: represents some workers, which run the functions of one module by their names, in threads of their own.
//
//     const agent = new Agent("tcp://127.0.0.1:2345", "./functions.js", { workers: 2 });
//     await agent.ended;
//
// Tasks run in threads, so that a long-running function never delays heartbeats, and can be stopped.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker as Thread } from "node:worker_threads";
import { Conversation } from "./conversation.js";
import {
  FRAMES, INLINE_BYTES, OBJECT, OWN_OBJECT, STATUS, VALUE, encodeFailure, functionName, readArguments, readOptions, splitIds,
} from "./payloads.js";

const HELD_BYTES = 26; // the last four are the number of rows: 0, since this agent takes no rows
const OWNER_BYTES = 8;
const KINDS = { delete: 2 };

/** One worker: runs one task at a time in a thread. */
class Slot {
  constructor(agent, module) {
    this.agent = agent;
    this.module = module;
    this.run = null;
    this.thread = null;
    this.timer = null;
  }

  start(run) {
    this.run = run;
    this.thread ??= this.#newThread();
    this.startedAt = process.hrtime.bigint();
    this.thread.postMessage({ name: run.name, values: run.values, keywords: run.keywords });
    const { timeoutMs } = run.options;
    if (timeoutMs) this.timer = setTimeout(() => this.stop(STATUS.timedOut, `it ran for longer than ${timeoutMs} ms`), timeoutMs);
  }

  #newThread() {
    const thread = new Thread(new URL("./thread.js", import.meta.url), { workerData: this.module });
    thread.on("message", (end) => thread === this.thread && this.#end(...outcome(end)));
    thread.on("error", (error) => (this.lastError = error.message));
    thread.on("exit", (code) => {
      if (thread !== this.thread) return;
      this.thread = null;
      if (this.run) this.#end(STATUS.processorDied, Buffer.from(`its thread ended with ${code}: ${this.lastError ?? "no error"}`));
    });
    return thread;
  }

  /** Stop the task by force. */
  stop(status, text) {
    const { thread } = this;
    this.thread = null;
    thread.terminate();
    this.#end(status, Buffer.from(text));
  }

  #end(status, payload, failure = "") {
    clearTimeout(this.timer);
    const { run } = this;
    this.run = null;
    const durationUs = Math.min(Number((process.hrtime.bigint() - this.startedAt) / 1000n), 2 ** 32 - 1);
    this.agent.finish(run, status, payload, failure, durationUs);
  }

  close() {
    const { thread } = this;
    this.thread = null;
    return thread?.terminate();
  }
}

/** Return status, payload and failure of a thread's message. */
function outcome({ json, error }) {
  if (!error) return [STATUS.success, Buffer.from(json)];
  const short = Buffer.from(`${error.typeName}: ${error.text}`).subarray(0, 200).toString("utf8").replace(/\uFFFD$/, "");
  return [STATUS.failed, encodeFailure(error), short];
}

const keyOf = ({ taskId, attempt }) => `${taskId.toString("hex")}:${attempt}`;

export class Agent {
  role = "worker";
  heartbeat = "workerHeartbeat";
  goodbyeNeedsAnswer = true;
  retriesRefused = true;
  #conversation;
  #id = randomBytes(16);
  #names;
  #functions;
  #slots = [];
  #runs = new Map(); // open runs by task and attempt
  #results = new Map(); // unacknowledged results, as items
  #objects = new Map(); // frames by id; null: requested
  #agents = 0;
  #settle;

  /** `functions`: the names to serve; by default all functions that the module exports. */
  constructor(address, module, { workers = 1, functions, name = `${hostname()}-${process.pid}`, ...seconds } = {}) {
    this.ended = new Promise((settle) => (this.#settle = settle));
    this.#names = Array.from({ length: workers }, (_, place) => `${name}-js-${place}`);
    const url = pathToFileURL(resolve(module)).href;
    this.#slots = this.#names.map(() => new Slot(this, url));
    this.#start(address, url, functions, seconds);
  }

  async #start(address, url, functions, seconds) {
    try {
      const exported = Object.entries(await import(url)).filter(([, each]) => typeof each === "function");
      this.#functions = functions ?? exported.map(([name]) => name);
      const ways = ["AgentToScheduler", "SchedulerToAgent"];
      this.#conversation = new Conversation(this, address, ...ways, { timeoutMs: 300_000, ...seconds });
    } catch (error) {
      this.#settle(`cannot serve ${url}: ${error.message}`);
    }
  }

  /** Leave: tasks that have not ended go to other workers. */
  leave() {
    this.#conversation.leave();
    return this.ended;
  }

  // What the conversation calls

  hello(fields) {
    const version = `Node.js ${process.version}`;
    const capabilities = this.#functions.map((name) => `call:${name}=1`).join(",");
    const who = { agentId: this.#id, workerNames: this.#names.join(","), ...this.#held(), capabilities };
    const what = { packageVersion: "javascript", pythonVersion: version, namedOnly: 1, agents: this.#agents };
    return ["workerHello", { ...fields, ...who, ...what }];
  }

  #held() {
    const runs = [...this.#runs.values(), ...[...this.#results.values()].map(([, fields]) => fields)];
    const heldOwners = Buffer.alloc(OWNER_BYTES * runs.length);
    runs.forEach(({ owner }, place) => heldOwners.writeBigUInt64LE(owner, OWNER_BYTES * place));
    const held = runs.map(({ taskId, attempt, worker }) => {
      const record = Buffer.alloc(HELD_BYTES);
      taskId.copy(record);
      record.writeUInt32LE(attempt, 16);
      record.writeUInt16LE(worker, 20);
      return record;
    });
    return { held: Buffer.concat(held), heldOwners };
  }

  goodbye() {
    return ["disconnectRequest", { reason: "it was asked to leave" }];
  }

  isWaiting() {
    return true;
  }

  resubmit(_unacknowledged, isOther) {
    if (isOther) this.#objects.clear();
    for (const [kind, fields] of this.#results.values()) this.#conversation.put(kind, fields);
    const missing = new Map();
    for (const run of this.#runs.values()) {
      if (!run.slot) for (const id of run.needs) missing.set(id.toString("hex"), id);
    }
    for (const [hex, id] of missing) if (!this.#objects.get(hex)) this.#request(id);
    for (const [hex, frames] of this.#objects) {
      if (frames) this.#conversation.put("objectKept", { objectId: Buffer.from(hex, "hex") });
    }
  }

  acknowledged(items) {
    for (const [kind, fields] of items) if (kind === "runResult") this.#results.delete(keyOf(fields));
  }

  expired() {
    this.#conversation.leave();
  }

  gaveUp() {
    this.failed = true;
    this.#conversation.leave();
  }

  async hasEnded(reason) {
    await Promise.all(this.#slots.map((slot) => slot.close()));
    this.#settle(reason);
  }

  // Messages of the scheduler

  received(kind, fields) {
    const handlers = {
      runTask: () => this.#runTask(fields),
      runCancel: () => this.#cancel(fields),
      recallRequest: () => this.#recall(fields),
      objectResponse: () => this.#receiveObject(fields),
      objectInstruction: () => this.#applyInstruction(fields),
      workerHeartbeatEcho: () => (this.#agents = fields.agents),
      disconnectResponse: () => this.#conversation.answered(fields.reason),
      leaveRequest: () => this.leave(),
    };
    handlers[kind]?.();
  }

  #runTask(task) {
    const key = keyOf(task);
    if (this.#runs.has(key) || this.#results.has(key)) return;
    const needs = [task.functionId, ...splitIds(task.objectIds)];
    const run = { ...task, key, needs, slot: null };
    this.#runs.set(key, run);
    if (task.worker >= this.#slots.length) {
      this.finish(run, STATUS.notFound, Buffer.from("there is no such worker"));
      return;
    }
    for (const id of needs) if (!this.#objects.has(id.toString("hex"))) this.#request(id);
    this.#startReady();
  }

  #request(objectId) {
    this.#objects.set(objectId.toString("hex"), null);
    this.#conversation.put("objectRequest", { objectId, byValue: 1 });
  }

  #receiveObject({ objectId, found, frames }) {
    const hex = objectId.toString("hex");
    if (found === 1) {
      this.#objects.set(hex, frames);
    } else {
      this.#objects.delete(hex);
      for (const run of [...this.#runs.values()]) {
        if (!run.slot && run.needs.some((id) => id.equals(objectId))) {
          this.finish(run, STATUS.missingObjects, Buffer.from(`object ${hex} is no longer stored`));
        }
      }
    }
    this.#startReady();
  }

  #applyInstruction({ kind, objectId }) {
    if (kind === KINDS.delete) this.#objects.delete(objectId.toString("hex"));
  }

  #cancel(cancel) {
    const run = this.#runs.get(keyOf(cancel));
    if (run?.slot) run.slot.stop(STATUS.canceled, "it was stopped");
    else if (run) this.finish(run, STATUS.canceled, Buffer.alloc(0));
    else if (!this.#results.has(keyOf(cancel))) this.#report({ ...cancel, status: STATUS.notFound });
  }

  #recall(request) {
    const run = this.#runs.get(keyOf(request));
    if (!run || run.slot) return;
    this.#runs.delete(run.key);
    const { taskId, worker, attempt } = run;
    this.#conversation.put("recallResponse", { taskId, worker, attempt });
  }

  // Tasks

  /** Start tasks on all idle workers: on each the ready task of the highest priority, the oldest first. */
  #startReady() {
    this.#slots.forEach((slot, worker) => {
      while (!slot.run) {
        const ready = [...this.#runs.values()].filter((run) => run.worker === worker && this.#hasAll(run));
        if (!ready.length) return;
        const next = ready.reduce((first, each) => (each.priority > first.priority ? each : first));
        this.#startRun(next, slot);
      }
    });
  }

  #hasAll(run) {
    return run.needs.every((id) => this.#objects.get(id.toString("hex")));
  }

  #startRun(run, slot) {
    try {
      run.name = functionName(this.#objects.get(run.functionId.toString("hex")));
      if (!this.#functions.includes(run.name)) throw new TypeError("this worker serves no such function");
      run.options = readOptions(run.options);
      run.values = [];
      run.keywords = {};
      const frames = [...run.frames];
      for (const { kind, name, data } of readArguments(run.payload)) {
        const text = kind === FRAMES ? takeFrames(frames, data) : this.#textOf(kind, data);
        if (name) run.keywords[name] = text;
        else run.values.push(text);
      }
    } catch (error) {
      this.finish(run, ...outcome({ error: { typeName: error.name, text: error.message, traceback: "" } }));
      return;
    }
    run.slot = slot;
    slot.start(run);
  }

  /** Return the JSON of an argument. */
  #textOf(kind, data) {
    if (kind === VALUE) return data.toString("utf8");
    if (kind !== OBJECT && kind !== OWN_OBJECT) throw new TypeError(`an argument of the unknown kind ${kind}`);
    return Buffer.concat(this.#objects.get(data.toString("hex"))).toString("utf8");
  }

  /** Report the end of a run. */
  finish(run, status, payload, failure = "", durationUs = 0) {
    this.#runs.delete(run.key);
    const { taskId, worker, attempt, owner } = run;
    const isLarge = status === STATUS.success && payload.length > INLINE_BYTES;
    const value = isLarge ? { frames: [payload] } : { payload };
    this.#report({ taskId, worker, attempt, owner, status, durationUs, failure, ...value });
    this.#startReady();
  }

  #report(result) {
    const { taskId, worker, attempt, owner = 0n, status, durationUs = 0, failure = "" } = result;
    const { payload = Buffer.alloc(0), frames = [] } = result;
    const fields = { taskId, worker, attempt, owner, status, durationUs, failure, payload, frames };
    this.#results.set(keyOf(fields), ["runResult", fields]);
    this.#conversation.put("runResult", fields);
  }
}

/** Remove the frames of an argument from `frames`. Return the JSON in them. */
function takeFrames(frames, data) {
  const found = frames.splice(0, data.readUInt32LE(0));
  if (!found.length) throw new RangeError("an argument is missing: a process between its client and this worker had no memory for it");
  return Buffer.concat(found).toString("utf8");
}
