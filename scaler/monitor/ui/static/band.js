// The band: tasks per second over the last hours, above each page. A range that is dragged on it filters the pages.

import { h, say } from "./dom.js";
import { clock } from "./format.js";
import { token } from "./canvas.js";
import { bars, plotIn, selected, stack, timeAxis } from "./charts.js";
import { prefs, set } from "./prefs.js";

const spans = { 1800: "30 min", 21600: "6 h", 86400: "1 d", 604800: "7 d" };
const lines = ["canceled", "success", "failed"].map((name) => ({ name, kind: name === "failed" ? name : "line" }));
const label = h("button", { class: "quiet", title: "Another length of the history" });
const box = h("div", {
  class: "plot", role: "img",
  "aria-label": "Tasks per second over the last hours; failed ones in red on top. Drag to see the tasks of a range.",
});
let said = null, range = null;
const end = () => said.start + said.columns.success.length * said.step;

const plot = plotIn(box, () => ({
  padding: [2, 16, 0, 16],
  scales: { x: { range: () => (said ? [said.start, end()] : [0, 1]) }, y: { range: (_, __, most) => [0, most || 1] } },
  axes: [{ ...timeAxis, size: 14, gap: 0 }, { show: false }],
  series: [{}, ...lines.map((line) => bars(line.kind))],
  bands: [{ series: [2, 1] }, { series: [3, 2] }],
  cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
  hooks: {
    draw: [marks], setSelect: [selected],
    setCursor: [({ cursor, posToVal }) => { box.title = cursor.left < 0 ? "" : clock(posToVal(cursor.left, "x"), true); }],
  },
}), () => {
  if (!said) return [[], [], [], []];
  const { success } = said.columns;
  return [success.map((_, i) => said.start + i * said.step), ...stack(lines, said.columns, success.length)];
});

/** Marks restarts, the chosen range, and the time before anything was recorded. */
function marks({ ctx, bbox, valToPos }) {
  if (!said) return;
  const { left, top, width, height } = bbox, scale = devicePixelRatio || 1, { success } = said.columns;
  const x = (at) => valToPos(at, "x", true), first = success.findIndex((value) => value !== null);
  ctx.save();
  ctx.font = `${12 * scale}px system-ui, sans-serif`;
  const room = (first < 0 ? left + width : x(said.start + first * said.step)) - 8 * scale;
  const short = "nothing was recorded before", whole = short + (said.kept ? "" : ": scaler_ui --store FILE keeps a week");
  ctx.fillStyle = token("ink2");
  ctx.textAlign = "right";
  if (room > 200 * scale) ctx.fillText(ctx.measureText(whole).width < room ? whole : short, room, top + height / 2);
  ctx.fillStyle = token("accent");
  ctx.textAlign = "left";
  for (const at of said.restarts) {
    ctx.fillRect(x(at), top, 2 * scale, height);
    ctx.fillText("restart", x(at) + 4 * scale, top + 10 * scale);
  }
  if (range) {
    ctx.globalAlpha = 0.25;
    ctx.fillRect(x(range[0]), top, Math.max(2, x(range[1]) - x(range[0])), height);
  }
  ctx.restore();
}

export function showBand(band) {
  said = band;
  const span = said.columns.success.length * said.step;
  say(label, `tasks/s, last ${spans[span] ?? `${Math.round(span / 60)} min`}`);
  plot.later();
}

/** Marks a range of time. */
export function markRange(chosen) {
  range = chosen;
  plot.later();
}

/** Puts the band in its place; `changed` is called when another length was chosen. */
export function openBand(place, changed) {
  label.addEventListener("click", () => {
    const all = Object.keys(spans).map(Number);
    set("band", all[(all.indexOf(prefs.band) + 1) % all.length]);
    changed();
  });
  place.append(label, box);
}
