// A worker of Scaler in JavaScript: node worker.js tcp://127.0.0.1:2345 [functions.js] [workers]
//
// Serves the functions that a module exports, under their names. In Python: client.call("area", 2, 3).

import { fileURLToPath } from "node:url";
import { Agent } from "./lib/agent.js";

const [address, module = fileURLToPath(new URL("./functions.js", import.meta.url)), workers = "2"] = process.argv.slice(2);
if (!address) {
  console.error("usage: node worker.js ADDRESS [MODULE] [WORKERS]");
  process.exit(2);
}
const agent = new Agent(address, module, { workers: Number(workers) });
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => agent.leave());
console.log(`ended: ${await agent.ended}`);
process.exit(agent.failed ? 1 : 0);
