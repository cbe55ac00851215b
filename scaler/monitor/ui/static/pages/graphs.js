// The drawing of a graph, from left to right by depth.

import { h, say, muted, panel } from "../dom.js";
import { sheet, token } from "../canvas.js";
import { count, seconds } from "../format.js";

const legend = [
  "Select a node to see its task. Nodes without inputs are on the left.",
  "Each box stands for all nodes of one function at one depth.",
];
const missing = (row) => (row.nodes > 2000
  ? `Graphs of more than 2,000 nodes are not drawn node by node; this one has ${count(row.nodes)}.`
  : "Loading its nodes.");
const marks = { success: "\u2713", failed: "\u2717", canceled: "/", running: ">" };

/** The part of the page of a graph that draws it. */
export function graphDrawing(app) {
  let edges = [], nodes = [], places = new Map(), boxes = false, first = 0;
  const note = muted(), readout = h("div", { class: "readout" });
  const { canvas, later } = sheet(
    (context) => draw(context), "The graph, from nodes without inputs on the left to the last results on the right");
  const box = h("div", { class: "chart" }, canvas), scroller = h("div", { class: "scroll", tabIndex: 0 }, box);
  const element = panel("Drawing", readout, scroller, note);

  const keyOf = (node) => (boxes ? `${node[0]} ${node[1]}` : node[0]);
  function layout() {
    const depths = new Map();
    places = new Map();
    for (const node of nodes) {
      const depth = boxes ? node[0] : node[1], at = depths.get(depth) || 0;
      depths.set(depth, at + 1);
      places.set(keyOf(node), [depth, at]);
    }
    const tallest = Math.max(1, ...depths.values()), [wide, high] = nodes.length > 200 ? [96, 12] : [168, 30];
    first = { wide, high };
    box.style.width = `${Math.max(scroller.clientWidth, (depths.size || 1) * wide)}px`;
    box.style.height = `${Math.min(4000, tallest * high + 16)}px`;
  }
  function draw(context) {
    const { wide, high } = first, x = (place) => place[0] * wide + 4, y = (place) => place[1] * high + 4;
    context.strokeStyle = token("hair");
    context.textBaseline = "middle";
    for (const [before, after] of edges || []) {
      const a = places.get(before), b = places.get(after);
      if (!a || !b) continue;
      context.beginPath();
      const [from, to] = [y(a) + high / 2 - 2, y(b) + high / 2 - 2];
      context.moveTo(x(a) + wide - 40, from);
      context.bezierCurveTo(x(a) + wide - 20, from, x(b) - 20, to, x(b), to);
      context.stroke();
    }
    for (const node of nodes) {
      const place = places.get(keyOf(node)), state = boxes ? worst(node[2]) : node[3];
      const kind = state in marks ? state : null, width = wide - 40, height = high - 6;
      context.fillStyle = token("ground2");
      context.fillRect(x(place), y(place), width, height);
      context.strokeStyle = kind ? token(kind) : token("line");
      context.lineWidth = kind === "failed" ? 2 : 1;
      context.strokeRect(x(place) + 0.5, y(place) + 0.5, width - 1, height - 1);
      context.lineWidth = 1;
      if (kind) {
        context.fillStyle = token(kind === "running" ? "running-fill" : kind);
        context.fillRect(x(place), y(place), 5, height);
      }
      if (high < 20) continue;
      context.fillStyle = token("ink");
      context.textAlign = "left";
      let text = `${kind ? `${marks[kind]} ` : ""}${boxes ? node[1] : node[2]}`;
      while (text.length > 4 && context.measureText(text).width > width - 14) text = `${text.slice(0, -2)}+`;
      context.fillText(text, x(place) + 10, y(place) + height / 2 + 1);
    }
    context.textBaseline = "alphabetic";
  }
  const worst = (counts) => ["failed", "running", "canceled", "success"].find((kind) => counts[kind]) || "waiting";
  function under(event) {
    const { wide, high } = first;
    return nodes.find((node) => {
      const [depth, at] = places.get(keyOf(node));
      return Math.floor((event.offsetX - 4) / wide) === depth && Math.floor((event.offsetY - 4) / high) === at;
    });
  }
  canvas.addEventListener("pointermove", (event) => {
    const node = under(event);
    if (!node) say(readout, "");
    else if (boxes) say(readout, `${node[1]}: ${Object.entries(node[2]).map(([kind, n]) => `${count(n)} ${kind}`).join(", ")}`);
    else say(readout, `${node[2]}: ${node[3]}${node[4] ? `, ${seconds(node[4])}` : ""}`);
  });
  canvas.addEventListener("click", (event) => {
    const node = under(event);
    if (node && !boxes) app.go("tasks", node[5]);
  });
  return {
    element,
    update({ drawing, subject }) {
      if (drawing.edges) edges = drawing.edges;
      (nodes = drawing.nodes), (boxes = drawing.boxes);
      layout();
      later();
      element.hidden = !subject && !nodes.length;
      scroller.hidden = !nodes.length;
      say(note, nodes.length ? legend[Number(boxes)] : subject ? missing(subject) : "");
    },
  };
}
