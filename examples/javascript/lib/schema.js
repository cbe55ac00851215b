// Schema: the messages of each direction and their columns, read from the schemas in protocol/.
//
// A struct of a batch has `count` in its first word, and one pointer for each column, in the order of their numbers. The
// comment of a column of type Data starts with its kind. Both rules are in protocol/README.md.

import { readFileSync } from "node:fs";

const PROTOCOL = new URL("../../../protocol/", import.meta.url);

const ROOTS = [
  [1, "client", "ClientToScheduler"],
  [2, "client", "SchedulerToClient"],
  [3, "worker", "AgentToScheduler"],
  [4, "worker", "SchedulerToAgent"],
  [5, "processor", "AgentToProcessor"],
  [6, "processor", "ProcessorToAgent"],
  [7, "monitor", "SchedulerToMonitor"],
];

/** Return the structs of a schema: for each its name, its fields, and the members of its union. */
function readStructs(file) {
  const structs = new Map();
  const open = [];
  for (const line of readFileSync(new URL(`${file}.capnp`, PROTOCOL), "utf8").split("\n")) {
    const code = line.replace(/#.*/, "").trim();
    const opening = /^(?:struct (\w+)|union) \{$/.exec(code);
    const field = /^(\w+) @(\d+) :([\w.()]+);$/.exec(code);
    if (opening) {
      open.push(opening[1] ? { name: opening[1], fields: [] } : { name: "union", fields: [] });
    } else if (code === "}") {
      const struct = open.pop();
      const path = [...open.map((each) => each.name), struct.name].join(".");
      structs.set(path, struct.fields);
    } else if (field) {
      const comment = /#\s*(.*)/.exec(line)?.[1] ?? "";
      open.at(-1).fields.push({ name: field[1], number: Number(field[2]), type: field[3], comment });
    }
  }
  return structs;
}

function kindOf(field) {
  if (field.type === "List(Text)") return "text";
  if (field.type === "List(Data)") return "bytes";
  if (field.name === "frames") return "frames";
  const match = /^(id|byte|U?Int\d+) column/.exec(field.comment);
  if (field.type !== "Data" || !match) throw new Error(`no kind of column: ${field.name} ${field.type} ${field.comment}`);
  return match[1];
}

function makeDirections() {
  const files = {};
  for (const file of ["common", "client", "worker", "processor", "monitor"]) files[file] = readStructs(file);
  const directions = {};
  for (const [number, file, name] of ROOTS) {
    const kinds = files[file].get(`${name}.Batch.union`).map((member) => {
      const [from, struct] = member.type.includes(".") ? member.type.split(".") : [file, member.type];
      const fields = files[from.toLowerCase()].get(struct);
      const columns = fields
        .filter((field) => field.name !== "count")
        .map((field) => ({ name: field.name, pointer: field.number - 1, kind: kindOf(field) }));
      return { name: member.name, index: member.number, columns };
    });
    const hasNumbers = files[file].get(name).some((field) => field.name === "heard");
    directions[name] = {
      name,
      number,
      hasNumbers,
      kinds,
      byName: new Map(kinds.map((kind) => [kind.name, kind])),
      byIndex: new Map(kinds.map((kind) => [kind.index, kind])),
    };
  }
  return directions;
}

/** The directions by name. Each has its number, and its kinds of items with their columns. */
export const DIRECTIONS = makeDirections();
