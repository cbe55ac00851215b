// Charts drawn by uPlot: over time (stacked bars or lines), and a histogram. Colours come from the tokens of the style
// sheet. Each chart has a label, a text for the value under the pointer, and a table of its values.

/* global uPlot */
import { h, say, fill, plainTable } from "./dom.js";
import { count, clock, seconds, unknown } from "./format.js";
import { token, paint, sheet, strokeLine } from "./canvas.js";

if (!globalThis.uPlot) throw new Error("vendor/uPlot.iife.min.js is missing");

/** The plots of the page, by the element around them. uPlot holds each one until it is destroyed. */
const plots = new Map();
addEventListener("prefs", () => plots.forEach((plot) => plot.redraw()));

/** Destroys the plots of closed pages. */
export function sweep() {
  for (const [box, plot] of plots) if (!box.isConnected) (plot.destroy(), plots.delete(box));
}

/** Draws in an element: a plot is made when the element has a size, and updated at most once per frame. */
export function plotIn(box, options, data) {
  let waits = false;
  const later = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      const { clientWidth: width, clientHeight: height } = box, plot = plots.get(box);
      if (!width || !height || !box.isConnected) return;
      if (!plot) return plots.set(box, new uPlot({ legend: { show: false }, ...options(), width, height }, data(), box));
      if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
      plot.setData(data());
    });
  };
  new ResizeObserver(later).observe(box);
  const renew = () => { plots.get(box)?.destroy(); plots.delete(box); later(); };
  return { later, renew };
}

const font = "12px system-ui, sans-serif";
const axis = (more) => ({
  font, stroke: () => token("ink2"), grid: { stroke: () => token("hair"), width: 1 }, ticks: { show: false }, ...more,
});
const day = (at) => new Date(at * 1000).toLocaleDateString("en-CA").slice(5);
export const timeAxis = axis({
  grid: { show: false }, space: 70, size: 22, gap: 2,
  values: (_, splits, __, ___, step) =>
    splits.map((at) => (step >= 86400 ? day(at) : clock(at).slice(0, step < 60 ? 8 : 5))),
});
/** Steps of an axis of bytes. */
const powers = Array.from({ length: 50 }, (_, n) => 2 ** n);
const counts = Array.from({ length: 12 }, (_, n) => [1, 2, 5].map((digit) => digit * 10 ** n)).flat();
export const bars = (kind) => ({
  paths: uPlot.paths.bars({ size: [1, Infinity, 1], align: 1 }), width: 0, points: { show: false },
  fill: (plot) => paint(plot.ctx, kind),
});
const dashes = [[], [6, 3], [2, 3], [10, 3, 2, 3]];

/** Reports the range of time that the pointer has selected; a click selects none. */
export function selected(plot) {
  const { left, width } = plot.select;
  if (width < 4) return;
  const detail = [left, left + width].map((x) => plot.posToVal(x, "x"));
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  dispatchEvent(new CustomEvent("range", { detail }));
}

/** Values in steps of one length. Frames bring all values once, then new ones. */
class Series {
  constructor(length) {
    Object.assign(this, { length, start: 0, step: 1, columns: {}, size: 0 });
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

  get end() { return this.start + this.size * this.step; }

  time(index) { return this.start + index * this.step; }
}

/** Sums of each line and those before it. A failure among many successes stays visible: it has a least height. */
export function stack(lines, columns, size) {
  const of = (line, i) => columns[line.name]?.[i] || 0;
  const most = Math.max(0, ...Array.from({ length: size }, (_, i) => lines.reduce((sum, line) => sum + of(line, i), 0)));
  const sums = new Array(size).fill(0);
  return lines.map((line) => sums.map((before, i) => {
    const value = of(line, i), least = line.kind === "failed" && value ? most * 0.02 : 0;
    return (sums[i] = before + Math.max(value, least));
  }));
}

/** A chart over time. lines: {name, title, kind}; stacked: bars on each other; format: formats a value. */
export function timeChart({ label, lines, stacked, format, log = () => false, tall, fixed = 0, base = 10 }) {
  const series = new Series(300), readout = h("div", { class: "readout" });
  const box = h("div", { class: tall ? "chart tall" : "chart", role: "img", "aria-label": label });
  let shown = [[]], isPinned = false;

  function data() {
    const { size, columns } = series;
    const values = stacked ? stack(lines, columns, size) : lines.map((line) => (columns[line.name] ?? []).slice(0, size));
    return (shown = [Array.from({ length: size }, (_, i) => series.time(i)), ...values]);
  }
  const most = () => Math.max(fixed, ...shown.slice(1).map((values) => Math.max(0, ...values))) || 1;
  const top = () => 2 ** Math.ceil(Math.log2(most()));
  const decades = () => [12, 8, 4, 0].map((n) => top() / 2 ** n);

  function options() {
    const isLog = log();
    const y = isLog ? { distr: 3, log: 2, range: () => [top() / 2 ** 14, top()] } : { range: () => [0, most() * 1.05] };
    const values = (_, splits) => splits.map((value) => (value ? format(value) : "0"));
    const line = ({ kind }, n) => ({
      stroke: () => token(kind), width: 1.75, dash: dashes[n % 4], points: { show: false },
    });
    return {
      padding: [8, 24, 0, 0],
      scales: { x: { range: () => [series.end - series.length * series.step, series.end] }, y },
      axes: [timeAxis, axis({
        size: 64, gap: 6, values, ...(isLog ? { splits: decades, filter: (_, splits) => splits } : {}),
        ...(base === 1024 ? { incrs: powers } : {}),
      })],
      series: [{}, ...lines.map((one, n) => (stacked ? bars(one.kind) : line(one, n)))],
      bands: stacked ? lines.slice(1).map((_, n) => ({ series: [n + 2, n + 1] })) : [],
      cursor: { y: false, lock: true, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      hooks: { drawClear: [gaps], setCursor: [read], setSelect: [selected] },
    };
  }
  const plot = plotIn(box, options, data);

  /** Hatches steps for which nothing was received; time before the first value stays blank. */
  function gaps({ ctx, bbox, valToPos }) {
    const first = series.columns[lines[0].name] ?? [], x = (i) => valToPos(series.time(i), "x", true);
    ctx.fillStyle = token("hair");
    for (let i = Math.max(0, first.findIndex((value) => value !== null)); i < series.size; i++) {
      if (first[i] === null) ctx.fillRect(x(i), bbox.top, Math.max(1, (x(i + 1) - x(i)) / 2), bbox.height);
    }
  }
  function read(plot) {
    const { left, _lock } = plot.cursor;
    const index = left < 0 ? -1 : Math.floor((plot.posToVal(left, "x") - series.start) / series.step);
    isPinned = Boolean(_lock);
    if (index < 0 || index >= series.size) return say(readout, "");
    const values = lines.map((line) => `${line.title} ${format(series.columns[line.name]?.[index]) ?? unknown}`);
    say(readout, `${clock(series.time(index))}  ${values.join("  ")}${isPinned ? "  (pinned)" : ""}`);
  }

  const named = (line, number) => h("span", {}, swatch(line, number, stacked), line.title);
  const legend = h("div", { class: "legend" }, lines.map(named));
  const numbers = h("div", { class: "scroll", tabIndex: 0, role: "group", "aria-label": `${label}, as a table` });
  const details = h("details", { ontoggle: () => tabulate() }, h("summary", { class: "muted" }, "As a table"), numbers);
  function tabulate() {
    if (!details.open) return;
    const last = [...Array(series.size).keys()].slice(-20).reverse();
    const cells = (i) => [clock(series.time(i)), ...lines.map((line) => format(series.columns[line.name]?.[i]))];
    const classes = ["", ...lines.map(() => "num")], heads = ["Time", ...lines.map((line) => line.title)];
    fill(numbers, plainTable(label, classes, last.map(cells), heads));
  }
  return {
    element: h("div", {}, legend, box, readout, details), renew: plot.renew,
    update(said, windowLength) {
      if (windowLength) series.length = windowLength;
      series.take(said);
      tabulate();
      plot.later();
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

/** A histogram of durations, in buckets that double. buckets: [limit in seconds, number of shorter runs]. */
export function histogram(label) {
  let buckets = [];
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  const name = (n) => (buckets[n] ? `<${seconds(buckets[n][0]).replace(" ", "")}` : "");
  const plot = plotIn(box, () => ({
    padding: [12, 8, 0, 0], cursor: { show: false },
    scales: { x: { time: false, range: () => [-1, buckets.length] }, y: { range: (_, __, most) => [0, most * 1.1 || 1] } },
    axes: [
      axis({ grid: { show: false }, size: 22, gap: 2, incrs: [1, 2, 4, 8], space: 52, values: (_, splits) => splits.map(name) }),
      axis({ size: 52, gap: 6, incrs: counts, values: (_, splits) => splits.map(count) }),
    ],
    series: [{}, { ...bars("success"), paths: uPlot.paths.bars({ size: [0.9, 64] }) }],
  }), () => [buckets.map((_, n) => n), buckets.map(([, runs]) => runs)]);
  return { element: box, update: (said) => ((buckets = said), plot.later()) };
}
