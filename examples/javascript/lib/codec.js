// Codec: items to messages and back. A message is an array of frames: the header, then the payload frames.
//
// An item is [kind, fields], such as ["taskCancel", {taskId}]. Ids and bytes are Buffers, numbers of 64 bits are BigInts,
// `frames` is an array of Buffers. All input is untrusted: a message that breaks a rule throws Unreadable.

import {
  CompositeList,
  DataList,
  ListElementSize,
  Message,
  ObjectSize,
  Pointer,
  PointerType,
  Struct,
  TextList,
  utils,
} from "capnp-es";

export const ID_BYTES = 16;
export const NO_ID = Buffer.alloc(ID_BYTES);
const ROWS_MOST = 4096; // of one task
const ITEMS_MOST = 2048;
const SEGMENTS_MOST = 512;
const DEPTH_MOST = 64;

const NUMBERS = {
  byte: [1, "readUInt8", "writeUInt8"],
  UInt16: [2, "readUInt16LE", "writeUInt16LE"],
  UInt32: [4, "readUInt32LE", "writeUInt32LE"],
  UInt64: [8, "readBigUInt64LE", "writeBigUInt64LE"],
  Int32: [4, "readInt32LE", "writeInt32LE"],
  frames: [4, "readUInt32LE", "writeUInt32LE"],
};

/** The error for bytes that are not a message of the other side. */
export class Unreadable extends Error {}

/** Return a class for structs of a size, as the compiler of capnp-es makes it, without names for the fields. */
export function structClass(displayName, dataBytes, pointers) {
  return class extends Struct {
    static _capnp = { displayName, id: "0", size: new ObjectSize(dataBytes, pointers) };
  };
}

const Root = structClass("Root", 24, 1);
const RootWithoutNumbers = structClass("RootWithoutNumbers", 8, 1);
const Batches = CompositeList(structClass("Batch", 8, 1));
const structs = new Map();

function structOf(columns) {
  if (!structs.has(columns.length)) structs.set(columns.length, structClass("Items", 8, columns.length));
  return structs.get(columns.length);
}

/** Return the default of a column of this kind. */
export function defaultOf(kind) {
  return { id: NO_ID, text: "", bytes: Buffer.alloc(0), frames: [], UInt64: 0n }[kind] ?? 0;
}

// Writing

/** Return a message with these items. */
export function encode(direction, items, number = 0, heard = 0) {
  const message = new Message();
  const root = message.initRoot(direction.hasNumbers ? Root : RootWithoutNumbers);
  const groups = [];
  for (const [name, fields] of items) {
    if (groups.at(-1)?.name !== name) groups.push({ name, rows: [] });
    groups.at(-1).rows.push(fields);
  }
  utils.setUint16(0, direction.number, root);
  if (direction.hasNumbers) {
    utils.setUint64(8, BigInt(number), root);
    utils.setUint64(16, BigInt(heard), root);
  }
  const frames = [];
  if (groups.length) {
    const batches = utils.initList(0, Batches, groups.length, root);
    groups.forEach(({ name, rows }, place) => {
      const kind = direction.byName.get(name);
      const batch = batches.get(place);
      utils.setUint16(0, kind.index, batch);
      const struct = utils.initStructAt(0, structOf(kind.columns), batch);
      utils.setUint32(0, rows.length, struct);
      for (const column of kind.columns) {
        writeColumn(struct, column, rows.map((row) => row[column.name] ?? defaultOf(column.kind)));
      }
      for (const row of rows) frames.push(...(row.frames ?? []));
    });
  }
  return [Buffer.from(message.toArrayBuffer()), ...frames];
}

function writeColumn(struct, { kind, pointer }, values) {
  if (kind === "text" || kind === "bytes") {
    if (values.every((value) => value.length === 0)) return;
    const list = utils.initList(pointer, kind === "text" ? TextList : DataList, values.length, struct);
    values.forEach((value, place) => {
      if (kind === "text") list.set(place, value);
      else if (value.length) writeData(list.get(place), value);
    });
    return;
  }
  const data = kind === "id" ? Buffer.concat(values) : numbersAsBytes(kind, values);
  if (data.some((byte) => byte !== 0)) utils.initData(pointer, data.length, struct).copyBuffer(data);
}

function numbersAsBytes(kind, values) {
  const [size, , write] = NUMBERS[kind];
  const data = Buffer.alloc(values.length * size);
  values.forEach((value, place) => data[write](kind === "frames" ? value.length : value, place * size));
  return data;
}

function writeData(pointer, value) {
  const content = pointer.segment.allocate(value.length);
  const made = utils.initPointer(content.segment, content.byteOffset, pointer);
  utils.setListPointer(made.offsetWords, ListElementSize.BYTE, value.length, made.pointer);
  pointer.copyBuffer(value);
}

// Reading uses the pointers of the library, but not its structs and lists. These copy structs that are smaller than expected
// into the message, and print whole lists in their errors, which can take very long for a corrupt message.

/** Return the numbers of a message and its items: {number, heard, items, size}. */
export function decode(direction, message) {
  try {
    const root = readMessage(message[0]);
    const number = root.number(0, 2);
    if (number !== direction.number) throw new Unreadable(`direction ${number} instead of ${direction.number}`);
    const items = readBatches(direction, root, message.slice(1));
    const size = message.reduce((sum, frame) => sum + frame.length, 0);
    return { number: Number(root.number(8, 8)), heard: Number(root.number(16, 8)), items, size };
  } catch (error) {
    throw error instanceof Unreadable ? error : new Unreadable(`no message: ${error.message}`);
  }
}

/** A struct of a message. Fields that an older writer has left out have the default. */
class Reading {
  constructor(content, dataBytes, pointers) {
    this.content = content;
    this.dataBytes = dataBytes;
    this.pointers = pointers;
    bytesAt(content, dataBytes + 8 * pointers);
  }

  /** Return an unsigned number of `size` bytes; one of 8 bytes is a BigInt. */
  number(offset, size) {
    if (offset + size > this.dataBytes) return size === 8 ? 0n : 0;
    const data = bytesAt(this.content, this.dataBytes);
    return size === 8 ? data.readBigUInt64LE(offset) : data.readUIntLE(offset, size);
  }

  /** Return a pointer; null if it is absent or null. */
  pointer(place) {
    if (place >= this.pointers) return null;
    const pointer = pointerAt(this.content, this.dataBytes + 8 * place);
    return utils.isNull(pointer) ? null : pointer;
  }

  struct(place) {
    return readStruct(this.pointer(place));
  }

  bytes(place) {
    return readBytes(this.pointer(place));
  }

  text(place) {
    return readText(this.pointer(place));
  }

  /** Return the pointers of a list of texts or bytes. */
  list(place) {
    const pointer = this.pointer(place);
    if (!pointer) return [];
    const length = checkList(pointer, ListElementSize.POINTER);
    const content = utils.getContent(pointer);
    return Array.from({ length }, (_, row) => pointerAt(content, 8 * row));
  }

  /** Return the structs of a list. */
  structs(place) {
    const pointer = this.pointer(place);
    if (!pointer) return [];
    const length = checkList(pointer, ListElementSize.COMPOSITE);
    const { dataByteLength, pointerLength } = utils.getTargetCompositeListSize(pointer);
    const content = utils.getContent(pointer);
    const size = dataByteLength + 8 * pointerLength;
    return Array.from({ length }, (_, row) => new Reading(pointerAt(content, size * row), dataByteLength, pointerLength));
  }
}

/** Return the root of one Cap'n Proto message in the standard framing. */
export function readMessage(bytes) {
  const count = bytes.length >= 8 ? bytes.readUInt32LE(0) + 1 : 0;
  const contentStart = 4 + 4 * count + (count % 2 ? 0 : 4);
  if (!count || count > SEGMENTS_MOST || contentStart > bytes.length) throw new Unreadable("no framing of Cap'n Proto");
  let end = contentStart;
  for (let segment = 0; segment < count; segment++) end += 8 * bytes.readUInt32LE(4 + 4 * segment);
  if (end > bytes.length) throw new Unreadable("a segment is cut off");
  return readStruct(new Pointer(new Message(bytes, false).getSegment(0), 0, DEPTH_MOST));
}

function pointerAt(content, offset) {
  return new Pointer(content.segment, content.byteOffset + offset, DEPTH_MOST);
}

function bytesAt({ segment, byteOffset }, length) {
  if (byteOffset < 0 || byteOffset + length > segment.byteLength) throw new Unreadable("a pointer leads out of the message");
  return Buffer.from(segment.buffer, byteOffset, length);
}

function readStruct(pointer) {
  if (!pointer || utils.getTargetPointerType(pointer) !== PointerType.STRUCT) throw new Unreadable("no struct");
  const { dataByteLength, pointerLength } = utils.getTargetStructSize(pointer);
  return new Reading(utils.getContent(pointer), dataByteLength, pointerLength);
}

/** Return the length of a list, whose elements must have this size. */
function checkList(pointer, elementSize) {
  const isOne = utils.getTargetPointerType(pointer) === PointerType.LIST;
  if (!isOne || utils.getTargetListElementSize(pointer) !== elementSize) throw new Unreadable("another list than expected");
  const length = utils.getTargetListLength(pointer);
  if (elementSize !== ListElementSize.BYTE && length > ITEMS_MOST) throw new Unreadable(`a list of ${length}`);
  return length;
}

function readBytes(pointer) {
  if (!pointer || utils.isNull(pointer)) return Buffer.alloc(0);
  const length = checkList(pointer, ListElementSize.BYTE);
  return Buffer.from(bytesAt(utils.getContent(pointer), length));
}

export function readText(pointer) {
  return readBytes(pointer).subarray(0, -1).toString("utf8"); // without the NUL at its end
}

function readBatches(direction, root, frames) {
  const items = [];
  for (const batch of root.structs(0)) readBatch(direction, batch, frames, items);
  if (frames.length) throw new Unreadable(`${frames.length} payload frames belong to no item`);
  return items;
}

function readBatch(direction, batch, frames, items) {
  const kind = direction.byIndex.get(batch.number(0, 2));
  if (!kind) throw new Unreadable("an unknown kind of items");
  const struct = batch.struct(0);
  const count = struct.number(0, 4);
  if (!count || items.length + count > ITEMS_MOST) throw new Unreadable(`a batch of ${count} items`);
  const columns = kind.columns.map((column) => readColumn(struct, column, count));
  for (let row = 0; row < count; row++) {
    const fields = {};
    kind.columns.forEach(({ name, kind: type }, place) => {
      const value = columns[place] ? columns[place][row] : defaultOf(type);
      fields[name] = type === "frames" && columns[place] ? takeFrames(frames, value) : value;
    });
    items.push([kind.name, fields]);
  }
}

function takeFrames(frames, count) {
  if (count > frames.length) throw new Unreadable("payload frames are missing");
  return frames.splice(0, count);
}

/** Return the values of a column; null if all are the default. */
function readColumn(struct, { name, kind, pointer }, count) {
  if (kind === "text" || kind === "bytes") {
    const list = struct.list(pointer);
    if (!list.length) return null;
    if (list.length !== count) throw new Unreadable(`a column of ${list.length} entries for ${count} items`);
    return list.map(kind === "text" ? readText : readBytes);
  }
  const data = struct.bytes(pointer);
  if (!data.length) return null;
  const [size, read] = kind === "id" ? [ID_BYTES] : NUMBERS[kind];
  if (data.length !== size * count) throw new Unreadable(`a column of ${data.length} bytes for ${count} items`);
  const offsets = Array.from({ length: count }, (_, row) => row * size);
  const values = offsets.map((at) => (read ? data[read](at) : data.subarray(at, at + size)));
  const isTooLong = name === "rows" && kind === "UInt32" && values.some((value) => value > ROWS_MOST);
  if (isTooLong) throw new Unreadable(`more than ${ROWS_MOST} rows of one task`);
  return values;
}
