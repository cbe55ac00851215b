// Lanes: a line per worker over time. A bin shows how busy the worker was, and the worst outcome; tasks that are
// wide enough are drawn as bars of their own. The pointer shows details.

import { h, say } from "./dom.js";
import { sheet, token, paint, timeAxis } from "./canvas.js";
import { clock, seconds } from "./format.js";

const left = 128, outcomes = ["idle", "success", "failed", "canceled"];

export class Lanes {
  constructor(open) {
    this.lanes = new Map();
    this.order = [];
    this.tasks = [];
    this.step = 1;
    this.points = 300;
    this.end = 0;
    this.readout = h("div", { class: "readout" });
    const { canvas, later } = sheet((...args) => this.draw(...args), "What each worker did over time");
    this.canvas = canvas;
    this.later = later;
    canvas.addEventListener("pointermove", (event) => say(this.readout, this.at(event.offsetX, event.offsetY).text));
    canvas.addEventListener("pointerleave", () => say(this.readout, ""));
    canvas.addEventListener("click", (event) => open(this.at(event.offsetX, event.offsetY)));
    this.box = h("div", { class: "chart" }, canvas);
    this.element = h("div", {}, this.box, this.readout);
  }

  get narrow() { return this.canvas.clientWidth < 500 ? 72 : left; }

  update(data) {
    if (data.full) this.lanes.clear();
    this.step = data.step;
    this.points = data.points;
    this.order = data.lanes.map((lane) => lane[0]);
    for (const [key, name, host, busy, ends] of data.lanes) {
      const lane = this.lanes.get(key) || { name, host, busy: "", ends: "" };
      const kept = Math.max(0, lane.busy.length - (busy.length - data.count)); // bins that are sent again replace earlier ones
      lane.busy = (lane.busy.slice(0, kept) + busy).slice(-data.points);
      lane.ends = (lane.ends.slice(0, kept) + ends).slice(-data.points);
      this.lanes.set(key, lane);
    }
    this.end = data.end;
    this.tasks = data.tasks;
    this.row = Math.max(14, Math.min(32, 480 / Math.max(1, this.order.length)));
    this.box.style.height = `${this.order.length * this.row + 22}px`;
    this.later();
  }

  /** Whether all lanes are idle. */
  get areIdle() { return !this.tasks.length && ![...this.lanes.values()].some((lane) => /[^0]/.test(lane.ends)); }

  get start() { return this.end - this.points * this.step; }

  at(x, y) {
    const key = this.order[Math.floor(y / this.row)], lane = this.lanes.get(key);
    const share = (x - this.narrow) / (this.canvas.clientWidth - this.narrow);
    const time = this.start + share * this.points * this.step;
    if (!lane || share < 0) return { key, text: lane ? `${lane.name} on ${lane.host}` : "" };
    const task = this.tasks.find((one) => one[3] === lane.name && one[4] <= time && (one[5] || this.end) >= time);
    const where = `${clock(time)}  ${lane.name}  `, took = task && seconds((task[5] || this.end) - task[4]);
    if (task) return { key, task, text: `${where}${task[1]}: ${task[2]}, ${took}` };
    const i = Math.floor(share * this.points) - (this.points - lane.busy.length), busy = parseInt(lane.busy[i] || "0", 16);
    return { key, text: `${where}${busy * 10} % busy${lane.ends[i] > 1 ? `, some ${outcomes[lane.ends[i]]}` : ""}` };
  }

  draw(context, width, height) {
    const from = this.narrow, each = (width - from) / this.points, rows = this.row;
    const busyFill = token("busy");
    context.textBaseline = "middle";
    this.order.forEach((key, number) => {
      const lane = this.lanes.get(key), y = number * rows, room = rows - 3;
      context.fillStyle = token("ink2");
      context.textAlign = "left";
      let name = lane.name; // the ends of names differ
      while (name.length > 3 && context.measureText(name).width > from - 8) name = `+${name.slice(2)}`;
      context.fillText(name, 0, y + rows / 2);
      context.fillStyle = token("hair");
      context.fillRect(from, y + rows - 2, width - from, 1);
      const before = this.points - lane.busy.length;
      for (let i = 0; i < lane.busy.length; i++) {
        const kind = Number(lane.ends[i]);
        if (!kind) continue;
        const high = Math.max(2, (parseInt(lane.busy[i], 16) / 10) * room);
        const x = from + (before + i) * each;
        context.fillStyle = busyFill;
        context.fillRect(x, y + 1 + room - high, Math.max(1, each), high);
        if (kind > 1) {
          const mark = Math.max(3, room / 4), top = kind === 2 ? y + 1 : y + 1 + room - mark;
          context.fillStyle = token("ground");
          context.fillRect(x - 1, kind === 2 ? top : top - 1, Math.max(2, each) + 2, mark + 1);
          context.fillStyle = token(outcomes[kind]);
          context.fillRect(x, top, Math.max(2, each), mark);
        }
      }
    });
    this.drawTasks(context, width, from, rows);
    context.textBaseline = "alphabetic";
    if (this.end) timeAxis(context, from, width - from, height, this.start, this.end);
  }

  drawTasks(context, width, from, rows) {
    const place = new Map(this.order.map((key, number) => [this.lanes.get(key).name, number]));
    for (const [, , state, worker, started, ended] of this.tasks) {
      const number = place.get(worker);
      if (number === undefined) continue;
      const x = (at) => Math.max(from, from + ((at - this.start) / (this.points * this.step)) * (width - from));
      const wide = x(ended || this.end) - x(started), y = number * rows + 1, high = rows - 3;
      if (wide < 3) continue;
      const kind = ended ? (state in { success: 1, failed: 1, canceled: 1 } ? state : "line") : "running";
      context.fillStyle = token("ground");
      context.fillRect(x(started), y, wide, high);
      context.fillStyle = paint(context, kind);
      const half = kind === "canceled" ? high / 2 : high;
      context.fillRect(x(started), y + high - half, wide, half);
      context.strokeStyle = token(kind);
      context.beginPath();
      if (!ended) context.moveTo(x(ended || this.end), y + high);
      context.strokeRect(x(started) + 0.5, y + 0.5, wide - 1, high - 1);
    }
  }
}
