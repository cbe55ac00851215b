// Calls a function many times, some calls at once, and prints each result: node storm.js ADDRESS NAME CALLS
//
// The function returns twice its argument. All results must be right, whatever happens to the connection.

import { Client } from "./lib/client.js";

const AT_ONCE = 20;

const [address, name, count] = process.argv.slice(2);
const client = new Client(address, { heartbeatMs: 500 });
let next = 0;
let wrong = 0;

async function callSome() {
  while (next < Number(count)) {
    const number = next++;
    try {
      const result = await client.call(name, number);
      if (result !== 2 * number) wrong += 1;
      console.log(`result ${number}`);
    } catch (error) {
      wrong += 1;
      console.log(`error ${number}: ${error.message}`);
    }
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, callSome));
await client.disconnect();
console.log(`${wrong} of ${count} are wrong`);
process.exitCode = wrong ? 1 : 0;
