// Session: items to numbered messages and back, on one connection after the other. Knows no socket and no time.
//
// Items leave in their order. One that is larger than a message travels as a transfer, and those behind it wait until its
// last chunk has left. What was said is kept until the other side has heard it.

import { Unreadable, decode, encode } from "./codec.js";

const MESSAGE_BYTES = 64 * 1024;
const ITEMS_MOST = 256;
const WINDOW_BYTES = 1024 * 1024;
const ACKNOWLEDGED_BYTES = 256 * 1024;
const PARTS_MOST = 1 << 16;
const TRANSFER_BYTES_MOST = 2 ** 31;

export class Session {
  #outgoing;
  #incoming;
  #onHeard;
  #waiting = [];
  #departure = null; // the rest of a large item: {number, sizes, pieces}
  #kept = []; // what was said and not heard: {number, message, items, size}
  #keptBytes = 0;
  #said = 0;
  #heard = 0;
  #unanswered = 0;
  #departures = 0;
  #arrival = null;
  #arrivals = 0;

  /** `onHeard` is called with the items of which it is known that the other side has them. */
  constructor(outgoing, incoming, onHeard = () => {}) {
    this.#outgoing = outgoing;
    this.#incoming = incoming;
    this.#onHeard = onHeard;
  }

  get heard() {
    return this.#heard;
  }

  put(kind, fields) {
    this.#waiting.push([kind, fields]);
  }

  /** Return all items of which it is not known that they have arrived, in their order. */
  unheard() {
    const leaving = this.#departure ? [this.#departure.item] : [];
    return [...this.#kept.flatMap((each) => each.items), ...leaving, ...this.#waiting];
  }

  /** Return a message that is not counted: a hello, a heartbeat, or without items an acknowledgement. */
  unnumbered(items, heard = this.#heard) {
    this.#unanswered = 0;
    return encode(this.#outgoing, items, 0, heard);
  }

  /** Return the messages that may leave now. */
  take() {
    const messages = [];
    while (this.#keptBytes < WINDOW_BYTES && (this.#departure || this.#waiting.length)) {
      messages.push(this.#departure ? this.#nextChunk() : this.#nextItems());
    }
    if (!messages.length && this.#unanswered >= ACKNOWLEDGED_BYTES) messages.push(this.unnumbered([]));
    if (messages.length) this.#unanswered = 0;
    return messages;
  }

  #nextItems() {
    const count = Math.min(this.#waiting.length, ITEMS_MOST);
    for (let most = count; ; most = Math.ceil(most / 4)) {
      const items = this.#waiting.slice(0, most);
      const message = encode(this.#outgoing, items, this.#said + 1, this.#heard);
      if (sizeOf(message) <= MESSAGE_BYTES) {
        this.#waiting.splice(0, most);
        return this.#keep(message, items);
      }
      if (most === 1) {
        this.#depart(this.#waiting.shift());
        return this.#nextChunk();
      }
    }
  }

  #depart(item) {
    const frames = encode(this.#outgoing, [item]);
    const sizes = Buffer.alloc(8 * frames.length);
    frames.forEach((frame, place) => sizes.writeBigUInt64LE(BigInt(frame.length), 8 * place));
    this.#departures += 1;
    this.#departure = { item, transfer: this.#departures, sizes, rest: Buffer.concat(frames) };
  }

  #nextChunk() {
    const { item, transfer, sizes, rest } = this.#departure;
    const frames = [rest.subarray(0, MESSAGE_BYTES)];
    const left = rest.subarray(MESSAGE_BYTES);
    const message = encode(this.#outgoing, [["chunk", { transfer, sizes, frames }]], this.#said + 1, this.#heard);
    this.#departure = left.length ? { item, transfer, sizes: Buffer.alloc(0), rest: left } : null;
    return this.#keep(message, left.length ? [] : [item]);
  }

  #keep(message, items) {
    this.#said += 1;
    const size = sizeOf(message);
    this.#kept.push({ number: this.#said, message, items, size });
    this.#keptBytes += size;
    return message;
  }

  /** Read a message. Returns its items; none if it is a repetition, or a part of a large one. */
  receive(message) {
    const { number, heard, items, size } = decode(this.#incoming, message);
    this.#acknowledge(heard);
    if (!number) return withoutChunks(items);
    if (number <= this.#heard) return [];
    if (number !== this.#heard + 1) throw new Unreadable(`message ${number} arrived after message ${this.#heard}`);
    this.#heard = number;
    this.#unanswered += size;
    return items.flatMap((item) => (item[0] === "chunk" ? this.#addChunk(item[1]) : [item]));
  }

  #acknowledge(heard) {
    if (heard > this.#said) throw new Unreadable(`message ${heard} was heard, and ${this.#said} is the last one`);
    while (this.#kept.length && this.#kept[0].number <= heard) {
      const { items, size } = this.#kept.shift();
      this.#keptBytes -= size;
      this.#onHeard(items);
    }
  }

  #addChunk({ transfer, sizes, frames }) {
    if (!this.#arrival) {
      const count = sizes.length / 8;
      if (!Number.isInteger(count) || count < 1 || count > PARTS_MOST) throw new Unreadable("no sizes of a transfer");
      const of = Array.from({ length: count }, (_, place) => Number(sizes.readBigUInt64LE(8 * place)));
      const total = of.reduce((sum, size) => sum + size, 0);
      if (total > TRANSFER_BYTES_MOST) throw new Unreadable(`a transfer of ${total} bytes`);
      this.#arrivals += 1;
      this.#arrival = { sizes: of, total, parts: [], bytes: 0 };
    } else if (sizes.length) {
      throw new Unreadable("a transfer starts while another one is arriving");
    }
    const arrival = this.#arrival;
    if (transfer !== this.#arrivals) throw new Unreadable(`a chunk of transfer ${transfer}`);
    if (!sizes.length && !frames.length) { // the rest of it is lost
      this.#arrival = null;
      return [];
    }
    for (const frame of frames) {
      arrival.parts.push(frame);
      arrival.bytes += frame.length;
    }
    if (arrival.bytes > arrival.total) throw new Unreadable("a transfer with more bytes than announced");
    if (arrival.bytes < arrival.total) return [];
    this.#arrival = null;
    const bytes = Buffer.concat(arrival.parts);
    let offset = 0;
    const message = arrival.sizes.map((size) => bytes.subarray(offset, (offset += size)));
    return withoutChunks(decode(this.#incoming, message).items);
  }

  /** Go on with a new connection, whose other side has heard this number. Returns what is said again. */
  resume(heard) {
    this.#acknowledge(heard);
    this.#unanswered = 0;
    return this.#kept.map((each) => each.message);
  }
}

function withoutChunks(items) {
  if (items.some(([kind]) => kind === "chunk")) throw new Unreadable("an unexpected chunk");
  return items;
}

function sizeOf(message) {
  return message.reduce((sum, frame) => sum + frame.length, 0);
}
