// Client: calls functions by their names, wherever workers serve them: in Python, in JavaScript.
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

/** A task that has not succeeded. `status` says how it ended; `typeName` is the class of what it raised. */
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
  triesAgain = false;
  #conversation;
  #id = randomBytes(16);
  #account = 0;
  #window = { tasks: 0, bytes: 0 };
  #functions = new Map(); // what creates the functions that the scheduler has, by name
  #calls = new Map(); // open calls by the id of their task
  #unsaid = []; // those that wait until the scheduler takes more
  #said = { tasks: 0, bytes: 0 };
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
   * The same with keyword arguments and options: `timeoutMs`, after which the task is ended; `capabilities`, what the
   * machine must have beside the function, such as {gpu: 1}; `signal`, an AbortSignal that cancels the task.
   */
  callWith(name, values = [], keywords = {}, { signal, ...options } = {}) {
    const call = { name, taskId: randomBytes(16), frames: [], objects: [], options: callOptions(name, options), isSaid: false };
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
      this.#unsaid.push(call);
      this.#sayMore();
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

  /** Leave: what is open is cancelled. */
  disconnect() {
    this.#conversation.leave();
    return this.ended;
  }

  #sayMore() {
    const { tasks, bytes } = this.#window;
    while (this.#unsaid.length) {
      const { bytes: more } = this.#unsaid[0];
      const isFull = (tasks && this.#said.tasks >= tasks) || (bytes && this.#said.tasks && this.#said.bytes + more > bytes);
      if (isFull) return;
      this.#say(this.#unsaid.shift());
    }
  }

  #say(call) {
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
    this.#said.tasks += 1;
    this.#said.bytes += call.bytes;
    call.isSaid = true;
  }

  #cancel(call) {
    if (call.isSaid && this.#calls.has(call.taskId.toString("hex"))) {
      this.#conversation.put("taskCancel", { taskId: call.taskId });
    } else if (!call.isSaid) {
      this.#unsaid = this.#unsaid.filter((each) => each !== call);
      this.#end(call, () => call.reject(new TaskError(`${call.name} was cancelled`, { status: "canceled" })));
    }
  }

  // What the conversation wants to know

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

  /** Say all that is open. Results that another scheduler kept are lost: those calls run again. */
  sayAll(_unheard, isOther) {
    this.#functions.clear();
    const said = [...this.#calls.values()].filter((call) => call.isSaid);
    this.#said = { tasks: 0, bytes: 0 };
    for (const call of said) {
      if (isOther) call.isLarge = false;
      if (call.isLarge) this.#request(call);
      else this.#say(call);
    }
  }

  #request(call) {
    this.#conversation.put("objectRequest", { objectId: call.taskId, byValue: 1 });
  }

  heard() {}

  expired() {
    this.#failAll("no scheduler answered in time", "timed out");
  }

  gaveUp() {
    this.#failAll("what came from the scheduler could not be read, again and again", "failed");
  }

  hasEnded(reason) {
    this.#endedBecause = reason || "it was disconnected";
    this.#failAll(this.#endedBecause, "canceled");
    this.#settle(reason);
  }

  #failAll(text, status) {
    this.#unsaid = [];
    for (const call of [...this.#calls.values()]) {
      if (call.isSaid && this.#endedBecause === null) this.#conversation.put("taskCancel", { taskId: call.taskId });
      this.#end(call, () => call.reject(new TaskError(`${call.name}: ${text}`, { status })));
    }
  }

  // What comes

  received(kind, fields) {
    if (kind === "helloReply") {
      this.#window = { tasks: fields.windowTasks, bytes: Number(fields.windowBytes) };
      this.#account = fields.account;
    } else if (kind === "taskResult") {
      this.#resultCame(fields);
    } else if (kind === "objectResponse") {
      this.#objectCame(fields);
    } else if (kind === "objectRequest") {
      this.#objectWanted(fields.objectId);
    }
  }

  #resultCame({ taskId, status, payload, size }) {
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

  #objectCame({ objectId, found, frames }) {
    const call = this.#calls.get(objectId.toString("hex"));
    if (!call?.isLarge) return;
    this.#conversation.put("objectInstruction", { kind: KINDS.delete, objectId });
    this.#end(call, () => {
      if (found === 1) call.resolve(fromJson(Buffer.concat(frames)));
      else throw new TaskError(`${call.name}: its result is not stored any more`, { status: "missing objects" });
    });
  }

  /** The scheduler has lost an object that it should have: say it again. */
  #objectWanted(objectId) {
    for (const call of this.#calls.values()) {
      const wanted = call.objects.find((each) => each.objectId.equals(objectId));
      if (wanted) this.#conversation.put("objectInstruction", wanted);
    }
  }

  #end(call, settle) {
    this.#calls.delete(call.taskId.toString("hex"));
    if (call.isSaid) {
      this.#said.tasks -= 1;
      this.#said.bytes -= call.bytes;
    }
    try {
      settle();
    } catch (error) {
      call.reject(error);
    }
    this.#sayMore();
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
