// Thread: runs the functions of a module, one call at a time. Arguments and results are JSON.

import { parentPort, workerData } from "node:worker_threads";

const functions = import(workerData);
functions.catch(() => {}); // each call reports the error

function described(error) {
  const isError = error instanceof Error;
  const typeName = isError ? error.constructor.name : typeof error;
  return { typeName, text: isError ? error.message : String(error), traceback: (isError && error.stack) || "" };
}

parentPort.on("message", async ({ name, values, keywords }) => {
  try {
    const call = (await functions)[name];
    const named = Object.entries(keywords).map(([key, text]) => [key, JSON.parse(text)]);
    const given = values.map((text) => JSON.parse(text));
    if (named.length) given.push(Object.fromEntries(named));
    const value = await call(...given);
    const json = JSON.stringify(value === undefined ? null : value);
    if (json === undefined) throw new TypeError(`${name} returned a value that is not JSON: ${String(value)}`);
    parentPort.postMessage({ json });
  } catch (error) {
    parentPort.postMessage({ error: described(error) });
  }
});
