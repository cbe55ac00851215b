// Live: rates, functions and what they wait for, clients, and each worker, those that look stuck first.

import {
  h, say, fill, scroller, table, pager, gauge, link, facts, empty, bar, failedCount, muted, panel, plainTable, push,
  searchBox,
} from "../dom.js";
import { timeChart } from "../charts.js";
import { bytes, count, percent, rate, seconds, ago, clock, unknown } from "../format.js";
import { prefs } from "../prefs.js";

const outcomes = ["success", "canceled", "failed"].map((name) => ({ name, title: name, kind: name }));

const functionColumns = [
  { title: "Function", cell: (row) => (row.id ? link("function", row.id, row.name) : row.name) },
  { title: "Open", num: true, cell: (row) => count(row.open) },
  { title: "Mean", num: true, cell: (row) => seconds(row.mean) },
  { title: "p95", num: true, narrow: false, cell: (row) => seconds(row.p95) },
  { title: "Failed", num: true, cell: (row) => failedCount(row.failed) },
  { title: "Runs, waits for", narrow: false, cell: split },
];

/** The share of open tasks that are running, and what the others wait for. */
function split(row) {
  if (!row.open) return h("span", { class: "muted" }, row.success ? "all ended" : unknown);
  const running = h("i", { class: "r" }), waiting = h("i", { class: "w" });
  running.style.width = `${Math.max(row.running ? 4 : 0, (row.running / row.open) * 100)}%`;
  waiting.style.flex = "1";
  const text = row.waiting ? row.waits : "nothing";
  const title = `${count(row.running)} run, ${count(row.waiting)} wait for ${text}`;
  return h("span", { class: "cut", title }, h("span", { class: "split", "aria-hidden": "true" }, running, waiting), text);
}

const cpu = (row) => (row.cpu === null ? unknown : gauge(row.cpu, percent(row.cpu)));
const share = (row) => (row.rss_free ? row.rss / (row.rss + row.rss_free) : 0);
const rss = (row) => (row.rss === null ? unknown : gauge(share(row), bytes(row.rss)));

function nameOf(row) {
  const marks = [row.flag && `\u26a0 ${row.flag}`, row.leaving, row.gone !== null && `left ${ago(row.gone)}`];
  const text = marks.filter(Boolean).join(", ");
  return h("span", {}, link("worker", row.key, row.name),
    text && h("span", { class: row.flag ? "failed" : "muted" }, `  ${text}`));
}

const runs = (row) => (row.running === null
  ? h("span", { class: "muted" }, "nothing")
  : h("span", { class: "cut" }, `${row.function} ${seconds(row.running)}`));

/** The server sends columns and units; these columns are more than a number. */
const units = { share: percent, bytes, count, lag: seconds };
const cells = {
  name: nameOf, cpu, rss,
  agent_cpu: (row) => `${percent(row.agent_cpu)}, ${bytes(row.agent_rss)}`,
  marks: (row) => h("span", { class: "mono", title: "initialized, has a task, task lock" }, row.marks),
};
function workerColumns(said) {
  const columns = said.map(({ name, title, unit }) => ({
    title, sort: name !== "marks" && name, wide: name === "name", num: name !== "name",
    narrow: name === "name" || name === "cpu" || name === "rss", cell: cells[name] ?? ((row) => units[unit](row[name])),
  }));
  return [...columns.slice(0, 3), { title: "Runs", narrow: false, cell: runs }, ...columns.slice(3)];
}

export default function live(app) {
  let sort = "flag", reverse = false, filter = "";
  const chart = timeChart({ label: "Tasks per second by outcome", lines: outcomes, stacked: true, format: rate });
  const load = timeChart({
    label: "Processor time and lag of the scheduler", format: percent, fixed: 0.2,
    lines: [{ name: "cpu", title: "scheduler, share of a core", kind: "accent" }],
  });
  const functions = table({
    label: "Functions", columns: functionColumns, key: (row) => row.id, open: (row) => app.go("function", row.id),
  });
  let workers = null;
  const workerTable = (columns) => table({
    label: "Workers", columns: workerColumns(columns), key: (row) => row.key, open: (row) => app.go("worker", row.key),
    sort: (name) => order(name, sort === name && !reverse),
  });
  function order(name, isReversed) {
    sort = name; reverse = isReversed;
    app.want({ sort, reverse, offset: 0 });
  }
  const pages = pager((offset) => app.want({ offset }));
  const search = searchBox("Filter workers", "name or host; !x: without x", (text) => {
    filter = text;
    app.want({ filter, offset: 0 });
  });
  const first = h("button", { onclick: () => order("flag", false) }, "Flagged first");
  const title = h("h2"), functionTitle = h("h2"), clients = scroller("Clients"), events = scroller("Events");
  const details = h("div"), none = h("div"), more = muted();
  const workerPart = h("div", {}, bar(search, first, push(), pages.element));
  const numbers = h("div", { class: "grid" }, panel("Tasks per second", chart.element),
    panel(functionTitle, functions.element, more));
  const rest = h("div", {}, h("div", { class: "grid" }, panel("Clients", clients), panel("Events", events)),
    h("details", { class: "panel" }, h("summary", {}, "Scheduler: memory, objects, messages"), load.element, details));
  const element = h("div", {}, numbers, panel(title, none, workerPart), rest);

  function update(data, strip) {
    numbers.hidden = rest.hidden = title.hidden = strip.news === "never";
    chart.update(data.series, 300);
    load.update(data.series, 300);
    functions.update(data.functions);
    const some = `: ${data.functions.length} of ${count(data.functions_total)}, the most open first`;
    say(functionTitle, `Functions${data.functions_total > data.functions.length ? some : ""}`);
    const waits = data.waiting.map((row) => `${count(row.tasks)} for ${row.for}`).join(", ");
    const untried = data.functions.length ? "" : "No function has run yet. Tasks of client.submit(fn, ...) appear here.";
    say(more, waits ? `Waiting tasks: ${waits}.` : untried);
    const { rows, offset, total, all, claimed, flagged } = data.workers;
    say(title, `Workers: ${count(all || claimed)}${flagged ? `, \u26a0 ${count(flagged)} look stuck` : ""}`);
    if (!workers) workerPart.append((workers = workerTable(data.workers.columns)).element);
    workers.update(rows, { sorted: data.workers.sort, reverse: data.workers.reverse, total, offset });
    pages.update(offset, rows.length, total, filter ? ` (${count(all)} in all)` : "");
    workerPart.hidden = !total && !filter;
    fill(none, all || total ? null : claimed ? muted("Loading.") : noWorkers(data, strip));
    fill(clients, data.clients.length ? clientTable(data.clients) : muted("No clients are connected."));
    fill(events, data.events.length ? eventTable(data.events)
      : muted("Nothing has connected, disconnected or been refused since the server of this page started."));
    fill(details, data.scheduler
      ? [facts(factsOf(data.scheduler)),
        h("div", { class: "grid" }, messages("Sent", data.sent), messages("Received", data.received))]
      : muted(unknown));
  }
  return { element, update, args: { window: 300, limit: 50, kept: prefs.kept } };
}
live.title = "Live";

function noWorkers(data, strip) {
  if (strip.news !== "never") {
    const address = data.scheduler?.address || "SCHEDULER_ADDRESS";
    return empty("No workers are connected, so tasks wait.", `scaler_cluster ${address} -n 4`);
  }
  return empty("There is nothing to show until the scheduler answers. If none is running, start one:",
    "scaler_scheduler tcp://127.0.0.1:2345",
    "If one is running, restart scaler_ui with the monitor address that the scheduler printed.");
}

function clientTable(clients) {
  const lost = () => h("span", { class: "failed" }, "  lost, awaited");
  const name = (row) => (row.is_away ? h("span", {}, row.label, lost()) : row.label);
  const rows = clients.map((row) => [name(row), row.owner || "-", count(row.open), count(row.waiting), ago(row.seen)]);
  return plainTable("Clients", ["cut", "", "num", "num", "num"], rows, ["Client", "Owner", "Open", "Waiting", "Seen"]);
}

const eventTable = (events) => plainTable("Events", ["num", "", "cut"],
  events.map((row) => [clock(row.time, true), row.kind, `${row.subject} ${row.reason}`]));

function factsOf(s) {
  const shared = s.shared ? `, ${bytes(s.shared)} of it in shared memory` : "";
  return [
    ["Address", s.address], ["Started", clock(s.started, true)], ["Version", s.package_version || unknown],
    ["Memory", bytes(s.rss)], ["Host has free", bytes(s.free)],
    ["Loop lag", `${seconds(s.lag)}, p95 ${seconds(s.lag_most)}`],
    ["Objects", `${count(s.objects)}, ${bytes(s.object)}${shared}`], ["Agents", count(s.agents)],
    ["Succeeded", count(s.ended.success)], ["Failed", count(s.ended.failed)], ["Canceled", count(s.ended.canceled)],
    ["Not found", count(s.ended.not_found)],
  ];
}

const messages = (title, list) => h("div", {}, h("h2", {}, title),
  plainTable(`Messages ${title}`, ["", "num"], list.map(([name, n]) => [name, count(n)])));
