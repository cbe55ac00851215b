// A client of Scaler in JavaScript: node client.js tcp://127.0.0.1:2345 NAME [ARGUMENT]...
//
// Calls a function by its name, in any language, and prints the result. The arguments are JSON, or NAME=JSON for a keyword
// argument. To serve such functions in Python: scaler_cluster ADDRESS --functions NAME=MODULE:FUNCTION

import { Client } from "./lib/client.js";

const [address, name, ...texts] = process.argv.slice(2);
if (!name) {
  console.error("usage: node client.js ADDRESS NAME [JSON | KEYWORD=JSON]...");
  process.exit(2);
}
const values = [];
const keywords = {};
for (const text of texts) {
  const [, keyword, json] = /^([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
  if (keyword) keywords[keyword] = JSON.parse(json);
  else values.push(JSON.parse(text));
}
const client = new Client(address);
try {
  console.log(JSON.stringify(await client.callWith(name, values, keywords)));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
await client.disconnect();
