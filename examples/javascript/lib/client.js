// Client: calls functions by their names, in any language in which workers serve them: Python, JavaScript.
//
//     const client = new Client("tcp://127.0.0.1:2345");
//     console.log(await client.call("area", 2, 3));
//     await client.disconnect();

import { randomBytes } from "node:crypto";
import { hostname, userInfo } from "node:os";
import { Conversation } from "./conversation.js";
import {
  CARRIED_BYTES, INLINE_BYTES, OWN_OBJECT, STATUS, STATUS_NAMES, VALUE, argument, callOptions, contentId, framesArgument,
  fromJson, functionFrames, readFailure, toJson,
} from "./payloads.js";

const KINDS = { createForTask: 1, delete: 2, createFunction: 3 };

/** A task that has not succeeded. `status` is the way it ended, `typeName` the class of the error that it raised. */
export class TaskError extends Error {
  constructor(message, { status = "failed", typeName = "", traceback = "" } = {}) {
    super(message);
    this.name = "TaskError";
    this.status = status;
    this.typeName = typeName;
    this.traceback = traceback;
  }
}

export class Client {
  role = "client";
  heartbeat = "clientHeartbeat";
  goodbyeNeedsAnswer = false;
  retriesRefused = false;
  #conversation;
  #id = randomBytes(16);
  #account = 0;
  #window = { tasks: 0, bytes: 0 };
  #functions = new Map(); // the instructions that created functions at the scheduler, by name
  #calls = new Map(); // open calls by the id of their task
  #pending = []; // calls that wait until the window has space
  #open = { tasks: 0, bytes: 0 };
  #settle;
  #endedBecause = null;

  constructor(address, options = {}) {
    this.ended = new Promise((settle) => (this.#settle = settle));
    this.#conversation = new Conversation(this, address, "ClientToScheduler", "SchedulerToClient", options);
  }

  /** Call a function by its name. Arguments and result are JSON. */
  call(name, ...values) {
    return this.callWith(name, values);
  }

  /**
   * Call a function by its name, with keyword arguments and options: `timeoutMs`, after which the task is ended;
   * `capabilities`, which the machine must have beside the function, such as {gpu: 1}; `signal`, an AbortSignal that
   * cancels the task.
   */
  callWith(name, values = [], keywords = {}, { signal, ...options } = {}) {
    const call = { name, taskId: randomBytes(16), frames: [], objects: [], isSubmitted: false };
    call.options = callOptions(name, options);
    const given = [...values.map((value) => ["", value]), ...Object.entries(keywords)];
    call.payload = Buffer.concat(given.map(([keyword, value]) => this.#argument(call, keyword, toJson(value))));
    const outside = [...call.frames, ...call.objects.map((each) => each.frames[0])];
    call.bytes = outside.reduce((sum, each) => sum + each.length, call.payload.length);
    return new Promise((resolve, reject) => {
      Object.assign(call, { resolve, reject });
      if (this.#endedBecause !== null) {
        reject(new TaskError(`the client has ended: ${this.#endedBecause}`));
        return;
      }
      signal?.addEventListener("abort", () => this.#cancel(call), { once: true });
      this.#calls.set(call.taskId.toString("hex"), call);
      this.#pending.push(call);
      this.#submitPending();
      if (signal?.aborted) this.#cancel(call);
    });
  }

  #argument(call, keyword, json) {
    if (json.length <= INLINE_BYTES) return argument(VALUE, json, keyword);
    if (call.frames.reduce((sum, each) => sum + each.length, json.length) <= CARRIED_BYTES) {
      call.frames.push(json);
      return framesArgument(json, keyword);
    }
    const objectId = randomBytes(16);
    call.objects.push({ kind: KINDS.createForTask, objectId, frames: [json] });
    return argument(OWN_OBJECT, objectId, keyword);
  }

  /** Leave: the scheduler cancels all open calls. */
  disconnect() {
    this.#conversation.leave();
    return this.ended;
  }

  #submitPending() {
    const { tasks, bytes } = this.#window;
    while (this.#pending.length) {
      const { bytes: more } = this.#pending[0];
      const isFull = (tasks && this.#open.tasks >= tasks) || (bytes && this.#open.tasks && this.#open.bytes + more > bytes);
      if (isFull) return;
      this.#submit(this.#pending.shift());
    }
  }

  #submit(call) {
    if (!this.#functions.has(call.name)) {
      const frames = functionFrames(call.name);
      const objectId = contentId(frames);
      const created = { kind: KINDS.createFunction, objectId, name: call.name, frames };
      this.#functions.set(call.name, created);
      this.#conversation.put("objectInstruction", created);
    }
    for (const each of call.objects) this.#conversation.put("objectInstruction", each);
    const functionId = this.#functions.get(call.name).objectId;
    const objectIds = Buffer.concat(call.objects.map((each) => each.objectId));
    const { taskId, payload, options, frames } = call;
    this.#conversation.put("task", { taskId, functionId, payload, objectIds, options, frames });
    this.#open.tasks += 1;
    this.#open.bytes += call.bytes;
    call.isSubmitted = true;
  }

  #cancel(call) {
    if (call.isSubmitted && this.#calls.has(call.taskId.toString("hex"))) {
      this.#conversation.put("taskCancel", { taskId: call.taskId });
    } else if (!call.isSubmitted) {
      this.#pending = this.#pending.filter((each) => each !== call);
      this.#end(call, () => call.reject(new TaskError(`${call.name} was cancelled`, { status: "canceled" })));
    }
  }

  // What the conversation calls

  hello(fields) {
    const version = `Node.js ${process.version}`;
    const who = { clientId: this.#id, account: this.#account, label: `${userInfo().username}@${hostname()}` };
    return ["clientHello", { ...fields, ...who, packageVersion: "javascript", pythonVersion: version }];
  }

  goodbye() {
    return ["clientDisconnect", { kind: 0 }];
  }

  isWaiting() {
    return this.#calls.size > 0;
  }

  /** Submit all open calls again. Large results at another scheduler are lost: their calls run again. */
  resubmit(_unacknowledged, isOther) {
    this.#functions.clear();
    const submitted = [...this.#calls.values()].filter((call) => call.isSubmitted);
    this.#open = { tasks: 0, bytes: 0 };
    for (const call of submitted) {
      if (isOther) call.isLarge = false;
      if (call.isLarge) this.#request(call);
      else this.#submit(call);
    }
  }

  #request(call) {
    this.#conversation.put("objectRequest", { objectId: call.taskId, byValue: 1 });
  }

  acknowledged() {}

  expired() {
    this.#failAll("no scheduler answered in time", "timed out");
  }

  gaveUp() {
    this.#failAll("the messages of the scheduler were repeatedly unreadable", "failed");
  }

  hasEnded(reason) {
    this.#endedBecause = reason || "it was disconnected";
    this.#failAll(this.#endedBecause, "canceled");
    this.#settle(reason);
  }

  #failAll(text, status) {
    this.#pending = [];
    for (const call of [...this.#calls.values()]) {
      if (call.isSubmitted && this.#endedBecause === null) this.#conversation.put("taskCancel", { taskId: call.taskId });
      this.#end(call, () => call.reject(new TaskError(`${call.name}: ${text}`, { status })));
    }
  }

  // Messages of the scheduler

  received(kind, fields) {
    if (kind === "helloReply") {
      this.#window = { tasks: fields.windowTasks, bytes: Number(fields.windowBytes) };
      this.#account = fields.account;
    } else if (kind === "taskResult") {
      this.#receiveResult(fields);
    } else if (kind === "objectResponse") {
      this.#receiveObject(fields);
    } else if (kind === "objectRequest") {
      this.#resendObject(fields.objectId);
    }
  }

  #receiveResult({ taskId, status, payload, size }) {
    const call = this.#calls.get(taskId.toString("hex"));
    if (!call) return;
    if (status === STATUS.success && size) {
      call.isLarge = true;
      this.#request(call);
      return;
    }
    this.#end(call, () => {
      if (status === STATUS.success) call.resolve(fromJson(payload));
      else throw failureOf(call, status, payload);
    });
  }

  #receiveObject({ objectId, found, frames }) {
    const call = this.#calls.get(objectId.toString("hex"));
    if (!call?.isLarge) return;
    this.#conversation.put("objectInstruction", { kind: KINDS.delete, objectId });
    this.#end(call, () => {
      if (found === 1) call.resolve(fromJson(Buffer.concat(frames)));
      else throw new TaskError(`${call.name}: its result is no longer stored`, { status: "missing objects" });
    });
  }

  /** Send an object again that the scheduler has lost. */
  #resendObject(objectId) {
    for (const call of this.#calls.values()) {
      const wanted = call.objects.find((each) => each.objectId.equals(objectId));
      if (wanted) this.#conversation.put("objectInstruction", wanted);
    }
  }

  #end(call, settle) {
    this.#calls.delete(call.taskId.toString("hex"));
    if (call.isSubmitted) {
      this.#open.tasks -= 1;
      this.#open.bytes -= call.bytes;
    }
    try {
      settle();
    } catch (error) {
      call.reject(error);
    }
    this.#submitPending();
  }
}

function failureOf(call, status, payload) {
  if (status !== STATUS.failed) {
    const name = STATUS_NAMES[status] ?? `status ${status}`;
    return new TaskError(`${call.name}: ${payload.toString("utf8") || name}`, { status: name });
  }
  const { typeName, text, traceback } = readFailure(payload);
  return new TaskError(`${call.name} raised ${typeName}: ${text}`, { typeName, traceback });
}
