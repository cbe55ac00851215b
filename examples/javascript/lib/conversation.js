// Conversation: a client or an agent at the scheduler of one address, on one connection after the other.
//
// The table of protocol/README.md ("One connection after the other"), with a socket and a clock. Whoever uses it is told
// `welcomed`, `received`, `heard` and so on, and puts items, which leave as soon as they can.

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
    reset: ["up", "sayAll"],
    replaced: ["up", "startOver"],
    refused: ["ended", "end"],
    timedOut: ["greeting", "expire"],
    leave: ["ended", "end"],
    answered: ["ended", "end"],
  },
  up: {
    ...away,
    heartbeatDue: ["up", "beat"],
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
 * Its user has these methods:
 *   hello(fields)            the item that says hello, with these fields of the session
 *   role                     what its key must let it be: client or worker
 *   heartbeat                the kind of heartbeats
 *   goodbye()                the last item, as [kind, fields]; `goodbyeNeedsAnswer`
 *   triesAgain               whether it tries again where it is refused
 *   isWaiting()              whether something waits for a scheduler and may time out
 *   sayAll(unheard, isOther) a session begins: put what is open again
 *   received(kind, fields)   an item
 *   heard(items)             the other side has these
 *   expired(), gaveUp()      nothing has answered for `timeoutMs`; nothing that comes can be read
 *   hasEnded(reason)           there will be no further connection
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
  #replyHeard = 0;
  #refusal = "";
  #losses = 0;
  #hasNews = false;
  #unreadable = 0;
  #openedAt = -Infinity;
  #opensAt = now();
  #beatsAt = Infinity;
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

  /** Say an item, now or on the next connection. */
  put(kind, fields) {
    this.#session.put(kind, fields);
    this.#flush();
    if (this.#unansweredSince < Infinity) this.#plan();
  }

  leave() {
    this.#happened("leave");
  }

  #newSession() {
    this.#session = new Session(this.#outgoing, this.#incoming, (items) => this.#user.heard(items));
  }

  // Events

  #happened(event, reason = "") {
    const step = TABLE[this.state][event];
    if (!step) return;
    const [next, action] = step;
    const before = this.state;
    this.state = next;
    if (next !== before) this.#moved();
    else if (event === "heartbeatDue") this.#beaten();
    else if (event === "timedOut") this.#waitingSince = Infinity;
    this.#do(action, reason);
    this.#plan();
  }

  #moved() {
    const at = now();
    if (this.state === "greeting") {
      this.#hasNews = false;
      this.#openedAt = at;
      this.#opensAt = Infinity;
      this.#ask(at);
    } else if (this.state === "up") {
      this.#unansweredSince = Infinity;
      this.#beatsAt = at + this.#heartbeatMs;
    } else if (this.state === "away") {
      this.#losses = this.#hasNews ? 0 : this.#losses;
      const pause = this.#losses ? Math.min(PAUSE_LEAST_MS * 2 ** (this.#losses - 1), PAUSE_MOST_MS) : 0;
      this.#losses = Math.min(this.#losses + 1, 16);
      this.#ask(at);
      this.#beatsAt = Infinity;
      this.#opensAt = Math.max(at + pause, this.#openedAt + PAUSE_LEAST_MS);
    } else if (this.state === "leaving") {
      this.#beatsAt = Infinity;
      this.#leavesAt = at + (this.#user.goodbyeNeedsAnswer ? GOODBYE_MS : 0);
    }
  }

  #ask(at) {
    this.#unansweredSince = Math.min(this.#unansweredSince, at);
  }

  #beaten() {
    this.#beatsAt = now() + this.#heartbeatMs;
    this.#ask(now());
  }

  #do(action, reason) {
    const actions = {
      open: () => this.#open(),
      hello: () => this.#hello(),
      resume: () => this.#begin(() => this.#session.resume(this.#replyHeard).forEach((each) => this.#send(each))),
      sayAll: () => this.#begin(() => this.#sayAll(false)),
      startOver: () => this.#begin(() => this.#sayAll(true)),
      beat: () => this.#send(this.#session.unnumbered([[this.#user.heartbeat, { sentNs: process.hrtime.bigint() }]])),
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
    if (this.#nextAt < Infinity) this.#timer = setTimeout(() => this.#look(), this.#nextAt - at);
  }

  #due() {
    const asked = this.#unansweredSince;
    const isSilent = asked < Infinity && this.#opensAt === Infinity;
    const all = [
      [Math.max(asked, this.#waitingSince) + this.#timeoutMs, "timedOut"],
      [isSilent ? Math.max(asked, this.#openedAt) + this.#silenceMs : Infinity, "silence"],
      [this.#opensAt, "pauseOver"],
      [this.#beatsAt, "heartbeatDue"],
      [this.#leavesAt, "goodbyeOver"],
    ];
    return all.reduce((first, each) => (each[0] < first[0] ? each : first));
  }

  #look() {
    const late = now() - this.#nextAt;
    if (late > LATE_MS) {
      this.#openedAt += late;
      this.#unansweredSince += late;
      this.#waitingSince += late;
    }
    const [at, event] = this.#due();
    if (at > now()) this.#plan();
    else this.#happened(event, "it was silent for too long");
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
        socket.events.on(`handshake:error:${how}`, ({ error }) => socket === this.#socket && this.#lockedOut(error));
      }
      socket.events.on("disconnect", () => {
        if (socket === this.#socket) this.#happened("cut", "the connection was closed");
      });
      socket.connect(this.#address);
      this.#socket = socket;
      this.#sending = Promise.resolve();
      this.#listen(socket);
    } catch (error) {
      this.#happened("refused", `cannot connect to ${this.#address}: ${error.message}`);
      return;
    }
    this.#happened("opened");
  }

  /** A handshake has failed: try the next key, or end. */
  #lockedOut(error) {
    this.#refusal = this.#keyring.failed(error?.status);
    this.#happened(this.#refusal ? "refused" : "cut", this.#refusal || "the handshake failed");
  }

  async #listen(socket) {
    try {
      for await (const message of socket) {
        if (socket === this.#socket) this.#receive(message);
        if (socket !== this.#socket) break;
      }
    } catch (error) {
      if (socket === this.#socket) this.#happened("cut", error.message);
    }
  }

  /** Send a message after those before it: a socket of this library takes one at a time. */
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

  /** Leave the connection open and unheard until the next one is up, or silent like this one. */
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
    const knows = !this.#schedulerId.equals(NO_ID);
    const goesOn = knows && this.#mayResume;
    const fields = {
      protocolVersion: 1,
      resumes: goesOn ? 1 : knows ? 2 : 0,
      heard: goesOn ? BigInt(this.#session.heard) : 0n,
      dial: this.#dial,
      begun: goesOn ? this.#begun : 0,
    };
    this.#send(this.#session.unnumbered([this.#user.hello(fields)], 0));
  }

  #begin(sayFirst) {
    this.#aside?.close();
    this.#aside = null;
    sayFirst();
    this.#mayResume = true;
    this.#flush();
  }

  #sayAll(isOther) {
    const unheard = this.#session.unheard();
    this.#newSession();
    this.#begun = this.#dial;
    this.#user.sayAll(unheard, isOther);
  }

  #receive(message) {
    let items;
    try {
      items = this.#session.receive(message);
      if (this.state === "up" && items[0]?.[0] !== "helloRequest") {
        this.#hasNews = true;
        this.#unansweredSince = Infinity;
      }
      for (const [kind, fields] of items) this.#take(kind, fields);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.#mayResume = false;
      this.#unreadable = this.#hasNews ? 1 : this.#unreadable + 1;
      const isTooMuch = this.#unreadable >= TRIES_MOST;
      if (isTooMuch) this.#unreadable = 0;
      this.#happened(isTooMuch ? "garbled" : "unreadable", error.message);
      return;
    }
    this.#flush();
    this.#plan();
  }

  #take(kind, fields) {
    if (kind === "helloReply") this.#welcomed(fields);
    else if (kind === "helloRequest") this.#happened("asked", fields.reason);
    else if (this.state === "up" || this.state === "leaving") this.#user.received(kind, fields);
  }

  #welcomed(reply) {
    if (this.state !== "greeting") return;
    if (!reply.accepted) {
      if (this.#user.triesAgain) {
        this.#happened("cut", reply.reason);
        return;
      }
      this.#refusal = reply.reason || "the scheduler refuses";
      this.#happened("refused", reply.reason);
      return;
    }
    const isOther = !this.#schedulerId.equals(NO_ID) && !this.#schedulerId.equals(reply.schedulerId);
    this.#schedulerId = Buffer.from(reply.schedulerId);
    this.#heartbeatMs = Math.min(this.#longestHeartbeatMs, reply.timeoutMilliseconds / 4 || Infinity);
    this.#replyHeard = Number(reply.heard);
    this.#user.received("helloReply", reply);
    this.#happened(isOther ? "replaced" : reply.resumed ? "resumed" : "reset");
  }

  /** The scheduler has said goodbye. */
  answered(reason) {
    this.#happened("answered", reason);
  }
}
