// Graphs: the progress of each, and one of them drawn from left to right by depth.

import { h, say, fill, table, pager, link, facts, empty, bar, failedCount, muted } from "../dom.js";
import { sheet, token } from "../canvas.js";
import { clock, count, seconds, unknown } from "../format.js";

function progress(row) {
  const parts = ["success", "running", "failed", "canceled"].map((kind) => {
    const part = h("i");
    part.style.width = `${(row[kind] / Math.max(1, row.nodes)) * 100}%`;
    part.style.background = `var(--${kind === "running" ? "running-fill" : kind})`;
    return part;
  });
  return h("span", { class: "cut" }, h("span", { class: "split", "aria-hidden": "true" }, parts),
    `${count(row.success)} of ${count(row.nodes)}`);
}
const columns = [
  { title: "Graph", cell: (row) => link("graphs", row.id, row.name) },
  { title: "Done", cell: progress },
  { title: "Ready, running", num: true, narrow: false, cell: (row) => count(row.running) },
  { title: "Waiting", num: true, narrow: false, cell: (row) => count(row.waiting) },
  { title: "Failed", num: true, cell: (row) => failedCount(row.failed) },
  { title: "Canceled", num: true, narrow: false, cell: (row) => count(row.canceled) },
  { title: "Submitted", num: true, narrow: false, cell: (row) => clock(row.submitted, true) },
  { title: "Ended", num: true, narrow: false, cell: (row) => (row.ended ? clock(row.ended, true) : "runs") },
];

export default function graphs(app) {
  return app.id ? one(app) : list(app);
}
graphs.title = "Graphs";

function list(app) {
  const rows = table({ label: "Graphs", columns, key: (row) => row.id, open: (row) => app.go("graphs", row.id) });
  const pages = pager((offset) => app.want({ offset })), none = h("div");
  const element = h("div", {}, bar(pages.element), rows.element, none);
  return {
    element, args: { limit: 50 },
    update(data) {
      rows.update(data.rows, { total: data.total, offset: data.offset });
      rows.element.hidden = !data.total;
      const more = data.all > data.total ? `, ${count(data.all)} in all` : "";
      pages.update(data.offset, data.rows.length, data.total, more);
      fill(none, data.total ? null
        : empty("No graph is running, and none has run lately.", 'client.get({"a": 1, "b": (inc, "a")}, ["b"])'));
    },
  };
}

const factsOf = (row) => [
  ["Done", `${count(row.success)} of ${count(row.nodes)}`], ["Ready, running", count(row.running)],
  ["Waiting", count(row.waiting)], ["Failed", count(row.failed)], ["Canceled", count(row.canceled)],
  ["Submitted", clock(row.submitted, true)], ["Ended", row.ended ? clock(row.ended, true) : "not yet"],
  ["Client", row.client_label || unknown], ["Owner", row.owner || unknown],
];
const legend = [
  "Select a node to see its task. Nodes without inputs are on the left.",
  "Each box stands for all nodes of one function at one depth.",
];
const missing = (row) => (row.nodes > 2000
  ? `Graphs of more than 2,000 nodes are not drawn node by node; this one has ${count(row.nodes)}.`
  : "Loading its nodes.");
const marks = { success: "\u2713", failed: "\u2717", canceled: "/", running: ">" };

function one(app) {
  let edges = [], nodes = [], places = new Map(), boxes = false, first = 0;
  const about = h("div"), note = muted(), readout = h("div", { class: "readout" });
  const { canvas, later } = sheet(
    (context) => draw(context), "The graph, from nodes without inputs on the left to the last results on the right");
  const box = h("div", { class: "chart" }, canvas), scroller = h("div", { class: "scroll", tabIndex: 0 }, box);
  const element = h("div", {}, h("p", {}, h("a", { href: "#/graphs" }, "All graphs")), about, readout, scroller, note);

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
    if (node && !boxes) app.go("task", node[5]);
  });
  return {
    element,
    update(data) {
      const row = data.graph;
      fill(about, row ? facts(factsOf(row))
        : empty("This graph is no longer known.", null, "The scheduler forgets graphs some time after their end."));
      if (data.edges) edges = data.edges;
      (nodes = data.nodes), (boxes = data.boxes);
      layout();
      later();
      scroller.hidden = !nodes.length;
      say(note, nodes.length ? legend[Number(boxes)] : row ? missing(row) : "");
    },
    title: "Graph",
  };
}
