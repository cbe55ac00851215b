// Session: items to numbered messages and back, on one connection after the other. It uses no socket and no clock.
//
// Items leave in their order. One that is larger than a message travels as a transfer, and those behind it wait until its
// last chunk has left. Messages are kept until the other side has acknowledged them.

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
  #onAcknowledged;
  #waiting = [];
  #outgoingTransfer = null; // the rest of a large item: {number, sizes, pieces}
  #kept = []; // sent and unacknowledged: {number, message, items, size}
  #keptBytes = 0;
  #sent = 0;
  #heard = 0;
  #unacknowledgedBytes = 0;
  #transfersSent = 0;
  #incomingTransfer = null;
  #transfersReceived = 0;

  /** `onAcknowledged` is called with the items that the other side has acknowledged. */
  constructor(outgoing, incoming, onAcknowledged = () => {}) {
    this.#outgoing = outgoing;
    this.#incoming = incoming;
    this.#onAcknowledged = onAcknowledged;
  }

  get heard() {
    return this.#heard;
  }

  put(kind, fields) {
    this.#waiting.push([kind, fields]);
  }

  /** Return all items that the other side has not acknowledged, in their order. */
  unacknowledged() {
    const inTransfer = this.#outgoingTransfer ? [this.#outgoingTransfer.item] : [];
    return [...this.#kept.flatMap((each) => each.items), ...inTransfer, ...this.#waiting];
  }

  /** Return a message that is not counted: a hello, a heartbeat, or, without items, an acknowledgement. */
  unnumbered(items, heard = this.#heard) {
    this.#unacknowledgedBytes = 0;
    return encode(this.#outgoing, items, 0, heard);
  }

  /** Return the messages that may leave now. */
  take() {
    const messages = [];
    while (this.#keptBytes < WINDOW_BYTES && (this.#outgoingTransfer || this.#waiting.length)) {
      messages.push(this.#outgoingTransfer ? this.#nextChunk() : this.#nextItems());
    }
    if (!messages.length && this.#unacknowledgedBytes >= ACKNOWLEDGED_BYTES) messages.push(this.unnumbered([]));
    if (messages.length) this.#unacknowledgedBytes = 0;
    return messages;
  }

  #nextItems() {
    const count = Math.min(this.#waiting.length, ITEMS_MOST);
    for (let most = count; ; most = Math.ceil(most / 4)) {
      const items = this.#waiting.slice(0, most);
      const message = encode(this.#outgoing, items, this.#sent + 1, this.#heard);
      if (sizeOf(message) <= MESSAGE_BYTES) {
        this.#waiting.splice(0, most);
        return this.#keep(message, items);
      }
      if (most === 1) {
        this.#startTransfer(this.#waiting.shift());
        return this.#nextChunk();
      }
    }
  }

  #startTransfer(item) {
    const frames = encode(this.#outgoing, [item]);
    const sizes = Buffer.alloc(8 * frames.length);
    frames.forEach((frame, place) => sizes.writeBigUInt64LE(BigInt(frame.length), 8 * place));
    this.#transfersSent += 1;
    this.#outgoingTransfer = { item, transfer: this.#transfersSent, sizes, rest: Buffer.concat(frames) };
  }

  #nextChunk() {
    const { item, transfer, sizes, rest } = this.#outgoingTransfer;
    const frames = [rest.subarray(0, MESSAGE_BYTES)];
    const left = rest.subarray(MESSAGE_BYTES);
    const message = encode(this.#outgoing, [["chunk", { transfer, sizes, frames }]], this.#sent + 1, this.#heard);
    this.#outgoingTransfer = left.length ? { item, transfer, sizes: Buffer.alloc(0), rest: left } : null;
    return this.#keep(message, left.length ? [] : [item]);
  }

  #keep(message, items) {
    this.#sent += 1;
    const size = sizeOf(message);
    this.#kept.push({ number: this.#sent, message, items, size });
    this.#keptBytes += size;
    return message;
  }

  /** Read a message. Return its items; empty if it is a repetition, or a part of a large message. */
  receive(message) {
    const { number, heard, items, size } = decode(this.#incoming, message);
    this.#acknowledge(heard);
    if (!number) return withoutChunks(items);
    if (number <= this.#heard) return [];
    if (number !== this.#heard + 1) throw new Unreadable(`message ${number} arrived after message ${this.#heard}`);
    this.#heard = number;
    this.#unacknowledgedBytes += size;
    return items.flatMap((item) => (item[0] === "chunk" ? this.#addChunk(item[1]) : [item]));
  }

  #acknowledge(heard) {
    if (heard > this.#sent) throw new Unreadable(`message ${heard} was acknowledged, but ${this.#sent} is the last one`);
    while (this.#kept.length && this.#kept[0].number <= heard) {
      const { items, size } = this.#kept.shift();
      this.#keptBytes -= size;
      this.#onAcknowledged(items);
    }
  }

  #addChunk({ transfer, sizes, frames }) {
    if (!this.#incomingTransfer) {
      const count = sizes.length / 8;
      if (!Number.isInteger(count) || count < 1 || count > PARTS_MOST) throw new Unreadable("no sizes of a transfer");
      const of = Array.from({ length: count }, (_, place) => Number(sizes.readBigUInt64LE(8 * place)));
      const total = of.reduce((sum, size) => sum + size, 0);
      if (total > TRANSFER_BYTES_MOST) throw new Unreadable(`a transfer of ${total} bytes`);
      this.#transfersReceived += 1;
      this.#incomingTransfer = { sizes: of, total, parts: [], bytes: 0 };
    } else if (sizes.length) {
      throw new Unreadable("a transfer started before the end of the previous one");
    }
    const arrival = this.#incomingTransfer;
    if (transfer !== this.#transfersReceived) throw new Unreadable(`a chunk of transfer ${transfer}`);
    if (!sizes.length && !frames.length) { // the rest of it is lost
      this.#incomingTransfer = null;
      return [];
    }
    for (const frame of frames) {
      arrival.parts.push(frame);
      arrival.bytes += frame.length;
    }
    if (arrival.bytes > arrival.total) throw new Unreadable("a transfer has more bytes than announced");
    if (arrival.bytes < arrival.total) return [];
    this.#incomingTransfer = null;
    const bytes = Buffer.concat(arrival.parts);
    let offset = 0;
    const message = arrival.sizes.map((size) => bytes.subarray(offset, (offset += size)));
    return withoutChunks(decode(this.#incoming, message).items);
  }

  /** Resume on a new connection, whose other side has received the messages up to `heard`. Return those to resend. */
  resume(heard) {
    this.#acknowledge(heard);
    this.#unacknowledgedBytes = 0;
    return this.#kept.map((each) => each.message);
  }
}

function withoutChunks(items) {
  if (items.some(([kind]) => kind === "chunk")) throw new Unreadable("a chunk in a message that must have none");
  return items;
}

function sizeOf(message) {
  return message.reduce((sum, frame) => sum + frame.length, 0);
}
