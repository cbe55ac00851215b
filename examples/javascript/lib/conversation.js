// Conversation: a client or an agent at the scheduler of one address, on one connection after the other.
//
// Implements the table of protocol/README.md ("One connection after the other"), with a socket and a clock. It calls methods of
// its user, such as `received` and `acknowledged`. The user puts items, which are sent as soon as possible.

import * as zmq from "zeromq";
import { NO_ID, Unreadable } from "./codec.js";
import { Keyring } from "./keys.js";
import { DIRECTIONS } from "./schema.js";
import { Session } from "./session.js";

const PAUSE_LEAST_MS = 50;
const PAUSE_MOST_MS = 2000;
const SILENCE_LEAST_MS = 5000;
const GOODBYE_MS = 1000;
const LATE_MS = 1000;
const TRIES_MOST = 5;

const hangUp = { asked: "hangUp", cut: "hangUp", unreadable: "hangUp", garbled: "giveUp", silence: "seek" };
const ends = Object.fromEntries(
  ["answered", "goodbyeOver", "asked", "cut", "unreadable", "garbled", "silence", "timedOut"].map((event) => [
    event,
    ["ended", "end"],
  ]),
);
const away = Object.fromEntries(Object.entries(hangUp).map(([event, action]) => [event, ["away", action]]));

/** state -> event -> [next state, what to do] */
const TABLE = {
  away: {
    pauseOver: ["away", "open"],
    opened: ["greeting", "hello"],
    refused: ["ended", "end"],
    timedOut: ["away", "expire"],
    leave: ["ended", "end"],
  },
  greeting: {
    ...away,
    resumed: ["up", "resume"],
    reset: ["up", "resubmit"],
    replaced: ["up", "startOver"],
    refused: ["ended", "end"],
    timedOut: ["greeting", "expire"],
    leave: ["ended", "end"],
    answered: ["ended", "end"],
  },
  up: {
    ...away,
    heartbeatDue: ["up", "heartbeat"],
    timedOut: ["up", "expire"],
    leave: ["leaving", "goodbye"],
    answered: ["ended", "end"],
  },
  leaving: ends,
  ended: {},
};

const now = () => performance.now();

/**
 * One side of the protocol.
 *
 * Its user has these methods and fields:
 *   hello(fields)                       return the hello, with these fields of the session
 *   role                                the role that its key must have: client or worker
 *   heartbeat                           the kind of heartbeats
 *   goodbye()                           return the last item, as [kind, fields]
 *   goodbyeNeedsAnswer                  whether the goodbye has an answer
 *   retriesRefused                      whether it tries again after a refusal
 *   isWaiting()                         whether work waits for a scheduler and may time out
 *   resubmit(unacknowledged, isOther)   put all open items again, for a new session; isOther: with another scheduler
 *   received(kind, fields)              handle an item
 *   acknowledged(items)                 note that the other side has received these items
 *   expired()                           no scheduler has answered for `timeoutMs`
 *   gaveUp()                            the messages that arrive are unreadable
 *   hasEnded(reason)                    there will be no further connection
 */
export class Conversation {
  state = "away";
  #user;
  #address;
  #keyring;
  #outgoing;
  #incoming;
  #session;
  #heartbeatMs;
  #longestHeartbeatMs;
  #silenceMs;
  #timeoutMs;
  #socket = null;
  #aside = null;
  #sending = Promise.resolve();
  #timer = null;
  #nextAt = Infinity;
  #schedulerId = NO_ID;
  #dial = 0;
  #begun = 0;
  #mayResume = false;
  #acknowledgedByReply = 0;
  #refusal = "";
  #losses = 0;
  #hasReceived = false;
  #unreadable = 0;
  #openedAt = -Infinity;
  #opensAt = now();
  #heartbeatAt = Infinity;
  #leavesAt = Infinity;
  #unansweredSince = Infinity;
  #waitingSince = Infinity;

  constructor(user, address, outgoing, incoming, { heartbeatMs = 2000, timeoutMs = 60_000, keyFile } = {}) {
    this.#user = user;
    this.#address = address;
    this.#keyring = new Keyring(address, user.role, keyFile);
    this.#outgoing = DIRECTIONS[outgoing];
    this.#incoming = DIRECTIONS[incoming];
    this.#heartbeatMs = this.#longestHeartbeatMs = heartbeatMs;
    this.#silenceMs = Math.max(3 * heartbeatMs, SILENCE_LEAST_MS);
    this.#timeoutMs = timeoutMs;
    this.#newSession();
    this.#plan();
  }

  /** Send an item, now or on the next connection. */
  put(kind, fields) {
    this.#session.put(kind, fields);
    this.#flush();
    if (this.#unansweredSince < Infinity) this.#plan();
  }

  leave() {
    this.#handle("leave");
  }

  #newSession() {
    this.#session = new Session(this.#outgoing, this.#incoming, (items) => this.#user.acknowledged(items));
  }

  // Events

  #handle(event, reason = "") {
    const step = TABLE[this.state][event];
    if (!step) return;
    const [next, action] = step;
    const before = this.state;
    this.state = next;
    if (next !== before) this.#stateChanged();
    else if (event === "heartbeatDue") this.#heartbeatSent();
    else if (event === "timedOut") this.#waitingSince = Infinity;
    this.#do(action, reason);
    this.#plan();
  }

  #stateChanged() {
    const at = now();
    if (this.state === "greeting") {
      this.#hasReceived = false;
      this.#openedAt = at;
      this.#opensAt = Infinity;
      this.#awaitAnswer(at);
    } else if (this.state === "up") {
      this.#unansweredSince = Infinity;
      this.#heartbeatAt = at + this.#heartbeatMs;
    } else if (this.state === "away") {
      this.#losses = this.#hasReceived ? 0 : this.#losses;
      const pause = this.#losses ? Math.min(PAUSE_LEAST_MS * 2 ** (this.#losses - 1), PAUSE_MOST_MS) : 0;
      this.#losses = Math.min(this.#losses + 1, 16);
      this.#awaitAnswer(at);
      this.#heartbeatAt = Infinity;
      this.#opensAt = Math.max(at + pause, this.#openedAt + PAUSE_LEAST_MS);
    } else if (this.state === "leaving") {
      this.#heartbeatAt = Infinity;
      this.#leavesAt = at + (this.#user.goodbyeNeedsAnswer ? GOODBYE_MS : 0);
    }
  }

  #awaitAnswer(at) {
    this.#unansweredSince = Math.min(this.#unansweredSince, at);
  }

  #heartbeatSent() {
    this.#heartbeatAt = now() + this.#heartbeatMs;
    this.#awaitAnswer(now());
  }

  #do(action, reason) {
    const actions = {
      open: () => this.#open(),
      hello: () => this.#hello(),
      resume: () => this.#startSession(() => this.#session.resume(this.#acknowledgedByReply).forEach((each) => this.#send(each))),
      resubmit: () => this.#startSession(() => this.#resubmit(false)),
      startOver: () => this.#startSession(() => this.#resubmit(true)),
      heartbeat: () => this.#send(this.#session.unnumbered([[this.#user.heartbeat, { sentNs: process.hrtime.bigint() }]])),
      hangUp: () => this.#close(),
      seek: () => this.#seek(),
      expire: () => this.#user.expired(),
      giveUp: () => {
        this.#close();
        this.#user.gaveUp();
      },
      goodbye: () => {
        this.#session.put(...this.#user.goodbye());
        this.#flush();
      },
      end: () => this.#end(reason),
    };
    actions[action]();
  }

  // The clock

  #plan() {
    if (this.state === "ended") return;
    const at = now();
    if (this.#unansweredSince < Infinity) {
      this.#waitingSince = this.#user.isWaiting() ? Math.min(this.#waitingSince, at) : Infinity;
    }
    this.#nextAt = Math.max(at, this.#due()[0]);
    clearTimeout(this.#timer);
    if (this.#nextAt < Infinity) this.#timer = setTimeout(() => this.#checkClock(), this.#nextAt - at);
  }

  #due() {
    const asked = this.#unansweredSince;
    const isSilent = asked < Infinity && this.#opensAt === Infinity;
    const all = [
      [Math.max(asked, this.#waitingSince) + this.#timeoutMs, "timedOut"],
      [isSilent ? Math.max(asked, this.#openedAt) + this.#silenceMs : Infinity, "silence"],
      [this.#opensAt, "pauseOver"],
      [this.#heartbeatAt, "heartbeatDue"],
      [this.#leavesAt, "goodbyeOver"],
    ];
    return all.reduce((first, each) => (each[0] < first[0] ? each : first));
  }

  #checkClock() {
    const late = now() - this.#nextAt;
    if (late > LATE_MS) {
      this.#openedAt += late;
      this.#unansweredSince += late;
      this.#waitingSince += late;
    }
    const [at, event] = this.#due();
    if (at > now()) this.#plan();
    else this.#handle(event, "it was silent for too long");
  }

  // The connection

  #open() {
    this.#opensAt = Infinity;
    try {
      const socket = new zmq.Dealer({
        linger: 0,
        sendHighWaterMark: 0,
        receiveHighWaterMark: 0,
        connectTimeout: 2000,
        tcpKeepalive: 1,
        maxMessageSize: 64 * 1024 * 1024,
        ipv6: this.#address.startsWith("tcp://["),
        ...this.#keyring.options(),
      });
      socket.events.on("handshake", () => this.#keyring.opened());
      for (const how of ["auth", "protocol", "other"]) {
        socket.events.on(`handshake:error:${how}`, ({ error }) => socket === this.#socket && this.#handshakeFailed(error));
      }
      socket.events.on("disconnect", () => {
        if (socket === this.#socket) this.#handle("cut", "the connection was closed");
      });
      socket.connect(this.#address);
      this.#socket = socket;
      this.#sending = Promise.resolve();
      this.#listen(socket);
    } catch (error) {
      this.#handle("refused", `cannot connect to ${this.#address}: ${error.message}`);
      return;
    }
    this.#handle("opened");
  }

  /** Handle a failed handshake: try the next key, or end. */
  #handshakeFailed(error) {
    this.#refusal = this.#keyring.failed(error?.status);
    this.#handle(this.#refusal ? "refused" : "cut", this.#refusal || "the handshake failed");
  }

  async #listen(socket) {
    try {
      for await (const message of socket) {
        if (socket === this.#socket) this.#receive(message);
        if (socket !== this.#socket) break;
      }
    } catch (error) {
      if (socket === this.#socket) this.#handle("cut", error.message);
    }
  }

  /** Send a message after the previous ones: a socket of this library takes one at a time. */
  #send(message) {
    const socket = this.#socket;
    this.#sending = this.#sending.then(async () => {
      if (socket && !socket.closed) await socket.send(message).catch(() => {});
    });
  }

  #flush() {
    if (this.state !== "up" && this.state !== "leaving") return;
    for (const message of this.#session.take()) this.#send(message);
  }

  #close() {
    this.#socket?.close();
    this.#socket = null;
  }

  /** Keep the connection open without reading it until the next one is up, or silent too. */
  #seek() {
    this.#aside?.close();
    this.#aside = this.#socket;
    this.#socket = null;
  }

  #end(reason) {
    clearTimeout(this.#timer);
    this.#aside?.close();
    this.#sending.finally(() => {
      if (this.#socket) this.#socket.linger = 500;
      this.#close();
      this.#user.hasEnded(this.#refusal || reason);
    });
  }

  // The session

  #hello() {
    this.#dial += 1;
    const hadSession = !this.#schedulerId.equals(NO_ID);
    const isResuming = hadSession && this.#mayResume;
    const fields = {
      protocolVersion: 1,
      resumes: isResuming ? 1 : hadSession ? 2 : 0,
      heard: isResuming ? BigInt(this.#session.heard) : 0n,
      dial: this.#dial,
      begun: isResuming ? this.#begun : 0,
    };
    this.#send(this.#session.unnumbered([this.#user.hello(fields)], 0));
  }

  #startSession(sendFirst) {
    this.#aside?.close();
    this.#aside = null;
    sendFirst();
    this.#mayResume = true;
    this.#flush();
  }

  #resubmit(isOther) {
    const unacknowledged = this.#session.unacknowledged();
    this.#newSession();
    this.#begun = this.#dial;
    this.#user.resubmit(unacknowledged, isOther);
  }

  #receive(message) {
    let items;
    try {
      items = this.#session.receive(message);
      if (this.state === "up" && items[0]?.[0] !== "helloRequest") {
        this.#hasReceived = true;
        this.#unansweredSince = Infinity;
      }
      for (const [kind, fields] of items) this.#dispatch(kind, fields);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.#mayResume = false;
      this.#unreadable = this.#hasReceived ? 1 : this.#unreadable + 1;
      const hasGivenUp = this.#unreadable >= TRIES_MOST;
      if (hasGivenUp) this.#unreadable = 0;
      this.#handle(hasGivenUp ? "garbled" : "unreadable", error.message);
      return;
    }
    this.#flush();
    this.#plan();
  }

  #dispatch(kind, fields) {
    if (kind === "helloReply") this.#welcomed(fields);
    else if (kind === "helloRequest") this.#handle("asked", fields.reason);
    else if (this.state === "up" || this.state === "leaving") this.#user.received(kind, fields);
  }

  #welcomed(reply) {
    if (this.state !== "greeting") return;
    if (!reply.accepted) {
      if (this.#user.retriesRefused) {
        this.#handle("cut", reply.reason);
        return;
      }
      this.#refusal = reply.reason || "the scheduler refused the connection";
      this.#handle("refused", reply.reason);
      return;
    }
    const isOther = !this.#schedulerId.equals(NO_ID) && !this.#schedulerId.equals(reply.schedulerId);
    this.#schedulerId = Buffer.from(reply.schedulerId);
    this.#heartbeatMs = Math.min(this.#longestHeartbeatMs, reply.timeoutMilliseconds / 4 || Infinity);
    this.#acknowledgedByReply = Number(reply.heard);
    this.#user.received("helloReply", reply);
    this.#handle(isOther ? "replaced" : reply.resumed ? "resumed" : "reset");
  }

  /** Handle the goodbye of the scheduler. */
  answered(reason) {
    this.#handle("answered", reason);
  }
}
