// Charts on canvas: over time (stacked or lines), and a histogram. Colours come from the tokens of the style sheet.
// Each chart has a label, a text panel for the value under the pointer, and a table of its values.

import { h, say, fill, plainTable } from "./dom.js";
import { clock, seconds, unknown } from "./format.js";

export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The fill of an outcome: success plain, failed hatched, canceled striped, so that they differ in grey, too. */
export function paint(context, kind) {
  const colour = token(kind === "running" ? "running-fill" : kind);
  if (kind !== "failed" && kind !== "canceled") return colour;
  const tile = new OffscreenCanvas(6, 6);
  const brush = tile.getContext("2d");
  brush.fillStyle = colour;
  brush.globalAlpha = 0.35;
  brush.fillRect(0, 0, 6, 6);
  brush.globalAlpha = 1;
  brush.strokeStyle = colour;
  brush.lineWidth = 1.5;
  brush.beginPath();
  brush.moveTo(0, 6); brush.lineTo(6, 0);
  if (kind === "failed") (brush.moveTo(0, 0), brush.lineTo(6, 6));
  brush.stroke();
  return context.createPattern(tile, "repeat");
}

export function strokeLine(context, x, y, toX, toY) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

// Charts of closed pages are removed.
const sheets = new Set();
addEventListener("prefs", () => forEachSheet((canvas) => canvas.later()));

function forEachSheet(act) {
  for (const known of sheets) {
    const canvas = known.deref();
    if (canvas) act(canvas);
    else sheets.delete(known);
  }
}

/** A canvas that keeps its size and is drawn at most once a frame. */
export function sheet(draw, label) {
  const canvas = h("canvas", { role: "img", "aria-label": label });
  forEachSheet(() => {});
  let waits = false;
  const later = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      const { clientWidth: width, clientHeight: height } = canvas;
      if (!width || !height) return;
      const scale = devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
        canvas.width = Math.round(width * scale);
        canvas.height = Math.round(height * scale);
      }
      const context = canvas.getContext("2d");
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      draw(context, width, height);
    });
  };
  new ResizeObserver(later).observe(canvas);
  canvas.later = later;
  sheets.add(new WeakRef(canvas));
  return { canvas, later };
}

/** Values in steps of one length. Frames bring all values once, then new ones. */
class Series {
  constructor(length) {
    this.length = length;
    this.start = 0;
    this.step = 1;
    this.columns = {};
    this.size = 0;
  }

  take(said) {
    if (!said) return;
    if (said.full) {
      this.start = said.start;
      this.step = said.step;
      this.columns = structuredClone(said.columns); // two charts may receive the same columns
    } else {
      const at = Math.round((said.start - this.start) / this.step);
      for (const [name, values] of Object.entries(said.columns)) {
        const mine = (this.columns[name] ||= []);
        while (mine.length < at) mine.push(null);
        mine.splice(at, mine.length, ...values);
      }
    }
    this.size = Math.max(0, ...Object.values(this.columns).map((values) => values.length));
    const extra = this.size - this.length;
    if (extra > 0) {
      for (const values of Object.values(this.columns)) values.splice(0, extra);
      this.start += extra * this.step;
      this.size -= extra;
    }
  }

  get end() {
    return this.start + this.size * this.step;
  }
}

function ticks(most, base) {
  if (!(most > 0)) return [0];
  const rough = most / 3;
  const unit = base === 1024 ? 1024 ** Math.floor(Math.log(rough) / Math.log(1024)) : 1;
  const power = unit * 10 ** Math.floor(Math.log10(rough / unit));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let value = 0; value <= most * 1.0001; value += step) found.push(value);
  return found;
}

const timeSteps = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

export function timeAxis(context, left, width, height, start, end) {
  const span = (end - start) * Math.max(1, 560 / width), step = timeSteps.find((each) => span / each <= 7) || 172800;
  const zone = new Date().getTimezoneOffset() * 60;
  context.fillStyle = token("ink2");
  context.textAlign = "center";
  for (let at = Math.ceil((start - zone) / step) * step + zone; at <= end; at += step) {
    const x = left + ((at - start) / (end - start)) * width;
    if (x < left + 20 || x > left + width - 20) continue;
    context.fillText(clock(at).slice(0, step < 60 ? 8 : 5), x, height - 2);
  }
}

const dashes = [[], [6, 3], [2, 3], [10, 3, 2, 3]];

/** A chart over time. lines: {name, title, kind}; stacked: areas above each other; format: formats a value. */
export function timeChart({ label, lines, stacked, format, log = () => false, tall, fixed = 0, base = 10 }) {
  const series = new Series(300);
  const readout = h("div", { class: "readout" });
  let pointer = null, pinned = false;
  const plot = (width) => ({ left: 64, width: width - 72 });

  const top = (logarithmic) => {
    let most = fixed;
    for (let i = 0; i < series.size; i++) {
      const values = lines.map((line) => series.columns[line.name]?.[i] || 0);
      most = Math.max(most, stacked ? values.reduce((a, b) => a + b, 0) : Math.max(...values));
    }
    return logarithmic ? Math.max(most, 1) : most * 1.05;
  };

  const { canvas, later } = sheet((context, width, height) => {
    const { left, width: inner } = plot(width);
    const logarithmic = log(), most = top(logarithmic) || 1, floor = logarithmic ? most / 1e4 : 0;
    const low = height - 18, high = 8;
    const start = series.end - series.length * series.step, end = series.end;
    const y = (value) => {
      const share = logarithmic ? Math.log(Math.max(value, floor) / floor) / Math.log(most / floor) : value / most;
      return low - share * (low - high);
    };
    const x = (index) => left + ((series.start + index * series.step - start) / (end - start)) * inner;
    context.strokeStyle = token("hair");
    context.fillStyle = token("ink2");
    context.textAlign = "right";
    for (const value of logarithmic ? [most / 1e3, most / 100, most / 10, most] : ticks(most, base)) {
      strokeLine(context, left, y(value), left + inner, y(value));
      context.fillText(value ? format(value) : "0", left - 6, y(value) + 4);
    }
    if (!series.size || series.end < 1e9) return;
    gaps(context, x, low, high);
    if (stacked) areas(context, x, y);
    else curves(context, x, y);
    timeAxis(context, left, inner, height, start, end);
    context.strokeStyle = token("line");
    strokeLine(context, left, low, left + inner, low);
    if (pointer !== null) {
      context.strokeStyle = token("ink2");
      strokeLine(context, pointer, high, pointer, low);
    }
  }, label);

  function gaps(context, x, low, high) {
    const first = lines[0] && series.columns[lines[0].name];
    if (!first) return;
    context.fillStyle = token("hair");
    for (let i = Math.max(0, first.findIndex((value) => value !== null)); i < series.size; i++) { // gaps before the first value are not marked
      if (first[i] === null) context.fillRect(x(i), high, Math.max(1, (x(i + 1) - x(i)) / 2), low - high);
    }
  }
  function areas(context, x, y) {
    const base = new Array(series.size).fill(0);
    for (const line of lines) {
      const values = series.columns[line.name] || [];
      context.fillStyle = paint(context, line.kind);
      for (let i = 0; i < series.size; i++) {
        const value = values[i] || 0;
        if (!value) continue;
        const from = Math.round(x(i)), low = y(base[i]);
        const height = Math.max(low - y(base[i] + value), line.kind === "failed" ? 2 : 0);
        context.fillRect(from, low - height, Math.max(1, Math.round(x(i + 1)) - from), height);
        base[i] += value;
      }
    }
  }
  function curves(context, x, y) {
    lines.forEach((line, number) => {
      const values = series.columns[line.name] || [];
      context.strokeStyle = token(line.kind);
      context.lineWidth = 1.75;
      context.setLineDash(dashes[number % 4]);
      context.beginPath();
      let isDown = false;
      for (let i = 0; i < series.size; i++) {
        const value = values[i];
        if (value === null || value === undefined) { isDown = false; continue; }
        const at = x(i + 0.5);
        if (isDown) context.lineTo(at, y(value));
        else context.moveTo(at, y(value));
        isDown = true;
      }
      context.stroke();
      context.setLineDash([]);
      context.lineWidth = 1;
    });
  }

  const at = (px) => {
    const { left, width } = plot(canvas.clientWidth);
    const span = series.length * series.step;
    return series.end - span + ((px - left) / width) * span;
  };
  function read() {
    if (pointer === null) return say(readout, "");
    const index = Math.floor((at(pointer) - series.start) / series.step);
    if (index < 0 || index >= series.size) return say(readout, "");
    const values = lines.map((line) => `${line.title} ${format(series.columns[line.name]?.[index]) ?? unknown}`);
    say(readout, `${clock(series.start + index * series.step)}  ${values.join("  ")}${pinned ? "  (pinned)" : ""}`);
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!pinned) pointer = event.offsetX;
    (read(), later());
  });
  canvas.addEventListener("pointerleave", () => {
    if (!pinned) pointer = null;
    (read(), later());
  });
  canvas.addEventListener("pointerup", (event) => {
    (pinned = !pinned), (pointer = event.offsetX);
    (read(), later());
  });

  const named = (line, number) => h("span", {}, swatch(line, number, stacked), line.title);
  const legend = h("div", { class: "legend" }, lines.map(named));
  const numbers = h("div", { class: "scroll", tabIndex: 0, role: "group", "aria-label": `${label}, as a table` });
  const details = h("details", { ontoggle: () => tabulate() }, h("summary", { class: "muted" }, "As a table"), numbers);
  function tabulate() {
    if (!details.open) return;
    const shown = [...Array(series.size).keys()].slice(-20).reverse();
    const cells = (i) => [
      clock(series.start + i * series.step), ...lines.map((line) => format(series.columns[line.name]?.[i])),
    ];
    const classes = ["", ...lines.map(() => "num")], heads = ["Time", ...lines.map((line) => line.title)];
    fill(numbers, plainTable(label, classes, shown.map(cells), heads));
  }
  const element = h("div", {}, legend, h("div", { class: tall ? "chart tall" : "chart" }, canvas), readout, details);
  return {
    element, later,
    update(said, windowLength) {
      if (windowLength) series.length = windowLength;
      series.take(said);
      (read(), tabulate(), later());
    },
  };
}

function swatch(line, number, stacked) {
  const { canvas } = sheet((context, width, height) => {
    if (stacked) {
      context.fillStyle = paint(context, line.kind);
      return context.fillRect(0, 1, width, height - 2);
    }
    context.strokeStyle = token(line.kind);
    context.lineWidth = 2;
    context.setLineDash(dashes[number % 4]);
    strokeLine(context, 0, height / 2, width, height / 2);
  }, line.title);
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

/** A histogram of durations, in buckets that double. buckets[n] counts runs of less than 2^n us. */
export function histogram(label) {
  let buckets = [];
  const { canvas, later } = sheet((context, width, height) => {
    const first = buckets.findIndex(Boolean), last = buckets.findLastIndex(Boolean);
    if (first < 0) return;
    const most = Math.max(...buckets), each = Math.min(64, (width - 16) / (last - first + 1)), low = height - 20;
    context.textAlign = "center";
    for (let n = first; n <= last; n++) {
      const x = 8 + (n - first) * each, size = (buckets[n] / most) * (low - 18), high = Math.max(size, buckets[n] ? 1 : 0);
      context.fillStyle = token("success");
      context.fillRect(x + 1, low - high, each - 2, high);
      context.fillStyle = token("ink2");
      const isNamed = each > 40 || (n - first) % Math.ceil(44 / each) === 0;
      if (isNamed) context.fillText(`<${seconds(2 ** n / 1e6).replace(" ", "")}`, x + each / 2, height - 4);
      const amount = buckets[n] >= 1e4 ? `${(buckets[n] / 1e3).toFixed(0)}k` : buckets[n];
      if (each > 30 && buckets[n]) context.fillText(amount, x + each / 2, low - size - 4);
    }
  }, label);
  return { element: h("div", { class: "chart" }, canvas), update: (said) => ((buckets = said || []), later()) };
}
