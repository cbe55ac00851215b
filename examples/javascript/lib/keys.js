// Keys: the key files of a peer on TCP, and the key that it uses for the next connection.
//
// Implements protocol/README.md ("Keys"). If a file is named, it is the only one; otherwise the files of this user for the
// address are tried. A key file that other users may read is an error, and is never skipped.

import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import { homedir, hostname } from "node:os";
import { join } from "node:path";

const FITTING = { client: ["admin", "client"], worker: ["worker"] };
const LOOPBACK = /^(\*|0\.0\.0\.0|localhost|127\..*|\[::1?\])$/;
const ADDRESS = /^tcp:\/\/(.*):(\d+)$/;
const REVOKED_OR_EXPIRED = 500;
/** A scheduler that ends closes connections without a reason, too, but less often in a row. */
const SILENT_REFUSALS = 3;

/** The signature of ZMTP 3.0 and its version: a listener answers with its greeting, which names its mechanism. */
const SIGNATURE = Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
const GREETING_BYTES = 64;

/** Return the mechanism that the listener at an address requires, such as CURVE or NULL; empty if it sends none. */
function mechanismAt(address) {
  const [, host, port] = ADDRESS.exec(address);
  return new Promise((resolve) => {
    let received = Buffer.alloc(0);
    const end = (mechanism) => resolve(mechanism) ?? probe.destroy();
    const probe = connect({ host: host.replace(/[[\]]/g, ""), port: Number(port), timeout: 2000 }, () => probe.write(SIGNATURE));
    for (const event of ["error", "timeout", "close"]) probe.on(event, () => end(""));
    probe.on("data", (data) => {
      received = Buffer.concat([received, data]);
      if (received.length >= GREETING_BYTES) end(received.subarray(12, 32).toString("latin1").replace(/\0+$/, ""));
    });
  });
}

/** Return the content of a key file. Throw an error if other users may read it. */
function readKey(path) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { mode, uid } = fstatSync(file);
    if (mode & 0o077) throw new Error(`users other than its owner may use ${path}: make it private (chmod 600)`);
    if (![0, process.geteuid()].includes(uid)) throw new Error(`${path} belongs to another user: copy it`);
    const key = JSON.parse(readFileSync(file, "utf8"));
    if (key.version !== 1) throw new Error(`${path} is not a key file`);
    return { ...key, path };
  } finally {
    closeSync(file);
  }
}

/** Return the keys of this user for an address: from the folder of its name, then from all folders with its port. */
function found(address, role) {
  const [, host, port] = ADDRESS.exec(address);
  const home = process.env.SCALER_KEY_FOLDER || join(homedir(), ".scaler");
  if (!existsSync(home)) return [];
  const own = `${LOOPBACK.test(host) ? hostname().toLowerCase() : host.toLowerCase().replace(/[[\]]/g, "").replaceAll(":", "-")}_${port}`;
  const others = readdirSync(home).filter((name) => name !== own && name.endsWith(`_${port}`));
  const files = [own, ...others.sort()].map((name) => FITTING[role].map((each) => join(home, name, `${each}.json`)).find(existsSync));
  return files.filter(Boolean).map(readKey);
}

/** The keys for one address, and the next one to try. */
export class Keyring {
  #address;
  #role;
  #file;
  #tries;
  #at = 0;
  #failures = 0;
  #mechanism = "";

  constructor(address, role, file = process.env.SCALER_KEY_FILE) {
    this.#address = address;
    this.#role = role;
    this.#file = file;
    this.#tries = this.#read();
  }

  #read() {
    const [address, role, file] = [this.#address, this.#role, this.#file];
    const keys = !address.startsWith("tcp://") ? [] : file ? [readKey(file)] : found(address, role);
    const wrong = keys.find((key) => !FITTING[role].includes(key.role));
    if (wrong) throw new Error(`${wrong.path} is the key of a ${wrong.role}: a ${role} needs another key`);
    return keys.flatMap((key) => key.servers.map((server) => ({ key, server })));
  }

  /** Read the keys again: the scheduler may have created or replaced them. Return whether there are new ones. */
  #hasNewKeys() {
    const tries = this.#read();
    const known = new Set(this.#tries.map(({ key, server }) => key.public + server));
    if (tries.every(({ key, server }) => known.has(key.public + server))) return false;
    [this.#tries, this.#at, this.#failures] = [tries, 0, 0];
    return true;
  }

  /** Return the options of a socket that shows the key. */
  options() {
    if (!this.#tries.length) return {};
    const { key, server } = this.#tries[this.#at];
    return { curveServerKey: server, curvePublicKey: key.public, curveSecretKey: key.secret };
  }

  opened() {
    this.#failures = 0;
    this.#mechanism = "";
  }

  /** Handle a failed handshake, with the code of the refusal, if there is one. Return the reason to give up; empty: try again. */
  failed(code) {
    if (!ADDRESS.test(this.#address)) return "";
    const last = this.#tries[this.#at];
    this.#failures += 1;
    if (this.#tries.length) this.#at = (this.#at + 1) % this.#tries.length;
    if (!code) {
      mechanismAt(this.#address).then((mechanism) => (this.#mechanism = mechanism));
      if (!this.#mechanism) return ""; // a tunnel, too, closes all connections while its scheduler is away
      if (!last && this.#mechanism === "NULL") return "";
    }
    const most = code ? this.#tries.length : SILENT_REFUSALS * Math.max(1, this.#tries.length);
    if (this.#failures < most || this.#hasNewKeys()) return "";
    if (!last) return `the scheduler at ${this.#address} requires a key: set SCALER_KEY_FILE to a key file`;
    if (code === REVOKED_OR_EXPIRED) return `the scheduler at ${this.#address} no longer accepts the key in ${last.key.path}: it was revoked or has expired`;
    if (code) return `the key in ${last.key.path} is not on the list of the scheduler at ${this.#address}, or its role does not fit`;
    return `the listener at ${this.#address} is not the scheduler of the key in ${last.key.path}, or has no keys`;
  }
}
