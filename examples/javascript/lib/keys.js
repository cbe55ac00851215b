// Keys: the files with which a peer gets in over TCP, and which of them it shows next.
//
// As protocol/README.md ("Keys") has it: a file that is named is the only one; else those of this user that are for the
// address. One that is there and that others may read is an error, and never passed over.

import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import { homedir, hostname } from "node:os";
import { join } from "node:path";

const FITTING = { client: ["admin", "client"], worker: ["worker"] };
const HERE = /^(\*|0\.0\.0\.0|localhost|127\..*|\[::1?\])$/;
const ADDRESS = /^tcp:\/\/(.*):(\d+)$/;
const LISTED_NO_MORE = 500;
/** A scheduler that ends hangs up without a word, too, but not so often in a row. */
const SILENT_REFUSALS = 3;

/** The signature of ZMTP 3.0 and its version: a listener answers with its greeting, which names its mechanism. */
const SIGNATURE = Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
const GREETING_BYTES = 64;

/** Return the mechanism that what listens there asks for, such as CURVE or NULL; empty if it says none. */
function mechanismAt(address) {
  const [, host, port] = ADDRESS.exec(address);
  return new Promise((resolve) => {
    let came = Buffer.alloc(0);
    const end = (mechanism) => resolve(mechanism) ?? probe.destroy();
    const probe = connect({ host: host.replace(/[[\]]/g, ""), port: Number(port), timeout: 2000 }, () => probe.write(SIGNATURE));
    for (const event of ["error", "timeout", "close"]) probe.on(event, () => end(""));
    probe.on("data", (data) => {
      came = Buffer.concat([came, data]);
      if (came.length >= GREETING_BYTES) end(came.subarray(12, 32).toString("latin1").replace(/\0+$/, ""));
    });
  });
}

/** Return what a file says, unless others than this user may read it. */
function readKey(path) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { mode, uid } = fstatSync(file);
    if (mode & 0o077) throw new Error(`others than its owner may use ${path}: make it private (chmod 600)`);
    if (![0, process.geteuid()].includes(uid)) throw new Error(`${path} belongs to another user: copy it`);
    const key = JSON.parse(readFileSync(file, "utf8"));
    if (key.version !== 1) throw new Error(`${path} is not a key file`);
    return { ...key, path };
  } finally {
    closeSync(file);
  }
}

/** Return the keys of this user for an address: of the folder that has its name, then of all with its port. */
function found(address, role) {
  const [, host, port] = ADDRESS.exec(address);
  const home = process.env.SCALER_KEY_FOLDER || join(homedir(), ".scaler");
  if (!existsSync(home)) return [];
  const own = `${HERE.test(host) ? hostname().toLowerCase() : host.toLowerCase().replace(/[[\]]/g, "").replaceAll(":", "-")}_${port}`;
  const others = readdirSync(home).filter((name) => name !== own && name.endsWith(`_${port}`));
  const files = [own, ...others.sort()].map((name) => FITTING[role].map((each) => join(home, name, `${each}.json`)).find(existsSync));
  return files.filter(Boolean).map(readKey);
}

/** The keys for one address, and which one is to be tried. */
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
    if (wrong) throw new Error(`${wrong.path} is the key of a ${wrong.role}, and a ${role} needs another one`);
    return keys.flatMap((key) => key.servers.map((server) => ({ key, server })));
  }

  /** Read the keys again: the scheduler may have made them, or have a new one. Return whether there are others. */
  #hasOthers() {
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

  /** A handshake has failed, with this code if it was refused by name. Return why there is no way in; empty: try again. */
  failed(code) {
    if (!ADDRESS.test(this.#address)) return "";
    const last = this.#tries[this.#at];
    this.#failures += 1;
    if (this.#tries.length) this.#at = (this.#at + 1) % this.#tries.length;
    if (!code) {
      mechanismAt(this.#address).then((mechanism) => (this.#mechanism = mechanism));
      if (!this.#mechanism) return ""; // a tunnel, too, hangs up on everybody as long as its scheduler is away
      if (!last && this.#mechanism === "NULL") return "";
    }
    const most = code ? this.#tries.length : SILENT_REFUSALS * Math.max(1, this.#tries.length);
    if (this.#failures < most || this.#hasOthers()) return "";
    if (!last) return `the scheduler at ${this.#address} accepts only peers with a key: name its file with SCALER_KEY_FILE`;
    if (code === LISTED_NO_MORE) return `the scheduler at ${this.#address} no longer accepts the key in ${last.key.path}: it was revoked or has expired`;
    if (code) return `the key in ${last.key.path} is not on the list of the scheduler at ${this.#address}, or has another role`;
    return `the program at ${this.#address} is not the scheduler that the key in ${last.key.path} is for, or has no keys`;
  }
}
