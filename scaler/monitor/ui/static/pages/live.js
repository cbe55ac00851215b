// Live: is it working, what holds it back, who waits for what, and each worker, those that look stuck first.

import { h, say, fill, scroller, table, pager, gauge, link, facts, empty } from "../dom.js";
import { timeChart } from "../charts.js";
import { bytes, count, percent, rate, seconds, ago, clock, unknown } from "../format.js";
import { prefs } from "../prefs.js";

export const outcomes = [
  { name: "success", title: "success", kind: "success" }, { name: "canceled", title: "canceled", kind: "canceled" },
  { name: "failed", title: "failed", kind: "failed" },
];

export const functionColumns = [
  { key: "name", title: "Function", cell: (row) => (row.id ? link("function", row.id, row.name) : row.name) },
  { title: "Open", num: true, cell: (row) => count(row.open) },
  { title: "Mean", num: true, cell: (row) => seconds(row.mean) },
  { title: "p95", num: true, narrow: false, cell: (row) => seconds(row.p95) },
  { title: "Failed", num: true, cell: (row) => (row.failed ? h("span", { class: "failed" }, `\u2717 ${count(row.failed)}`) : "0") },
  { title: "Runs, waits for", narrow: false, cell: split },
];

/** How many of the open tasks run, and what the others wait for. */
function split(row) {
  if (!row.open) return h("span", { class: "muted" }, row.success ? "all ended" : unknown);
  const running = h("i", { class: "r" }), waiting = h("i", { class: "w" });
  running.style.width = `${Math.max(row.running ? 4 : 0, (row.running / row.open) * 100)}%`;
  waiting.style.flex = "1";
  const text = row.waiting ? row.waits : "nothing";
  return h("span", { class: "cut", title: `${count(row.running)} run, ${count(row.waiting)} wait for ${text}` }, h("span", { class: "split", "aria-hidden": "true" }, running, waiting), text);
}

const cpu = (row) => (row.cpu === null ? unknown : gauge(row.cpu, percent(row.cpu)));
const rss = (row) => (row.rss === null ? unknown : gauge(row.rss_free ? row.rss / (row.rss + row.rss_free) : 0, bytes(row.rss)));

function nameOf(row) {
  const marks = [row.flag && `\u26a0 ${row.flag}`, row.leaving, row.gone !== null && `left ${ago(row.gone)}`].filter(Boolean).join(", ");
  return h("span", {}, link("worker", row.key, row.name), marks ? h("span", { class: row.flag ? "failed" : "muted" }, `  ${marks}`) : null);
}

const runs = (row) => (row.running === null
  ? h("span", { class: "muted" }, "nothing")
  : h("span", { class: "cut" }, `${row.function} ${seconds(row.running)}`));

/** The server says which columns there are, and in what units; some are more than a number here. */
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
  const load = timeChart({ label: "Processor time and lag of the scheduler", lines: [{ name: "cpu", title: "scheduler, share of a core", kind: "accent" }], format: percent, fixed: 0.2 });
  const functions = table({ label: "Functions", columns: functionColumns, key: (row) => row.id, open: (row) => app.go("function", row.id) });
  let workers = null;
  const workerTable = (columns) => table({
    label: "Workers", columns: workerColumns(columns), key: (row) => row.key, open: (row) => app.go("worker", row.key),
    sort: (name) => { (reverse = sort === name ? !reverse : false), (sort = name); app.want({ sort, reverse, offset: 0 }); },
  });
  const pages = pager((offset) => app.want({ offset }));
  const search = h("input", { type: "search", placeholder: "name or host; !x: without x", "aria-label": "Filter workers", oninput: () => { filter = search.value; app.want({ filter, offset: 0 }); } });
  const first = h("button", { onclick: () => { sort = "flag"; reverse = false; app.want({ sort, reverse, offset: 0 }); } }, "Flagged first");
  const title = h("h2"), functionTitle = h("h2"), clients = scroller("Clients"), details = h("div"), events = scroller("Events"), none = h("div"), more = h("p", { class: "muted" });
  const workerPart = h("div", {}, h("div", { class: "bar" }, search, first, h("span", { class: "push" }), pages.element));
  const numbers = h("div", { class: "grid" },
    h("section", { class: "panel" }, h("h2", {}, "Tasks per second"), chart.element),
    h("section", { class: "panel" }, functionTitle, functions.element, more));
  const rest = h("div", {}, h("div", { class: "grid" }, h("section", { class: "panel" }, h("h2", {}, "Clients"), clients), h("section", { class: "panel" }, h("h2", {}, "Events"), events)),
    h("details", { class: "panel" }, h("summary", {}, "Scheduler: memory, objects, messages"), load.element, details));
  const element = h("div", {}, numbers, h("section", { class: "panel" }, title, none, workerPart), rest);

  function update(data, strip) {
    numbers.hidden = rest.hidden = title.hidden = strip.news === "never";
    chart.update(data.series, 300);
    load.update(data.series, 300);
    functions.update(data.functions);
    say(functionTitle, data.functions_total > data.functions.length ? `Functions: ${data.functions.length} of ${count(data.functions_total)}, the most open first` : "Functions");
    const waits = data.waiting.map((row) => `${count(row.tasks)} for ${row.for}`).join(", ");
    say(more, waits ? `Waiting tasks: ${waits}.` : data.functions.length ? "" : "No function has run yet: client.submit(fn, ...) shows here.");
    const { rows, offset, total, all, claimed, flagged } = data.workers;
    say(title, `Workers: ${count(all || claimed)}${flagged ? `, \u26a0 ${count(flagged)} look stuck` : ""}`);
    if (!workers) workerPart.append((workers = workerTable(data.workers.columns)).element);
    workers.update(rows, { sorted: data.workers.sort, reverse: data.workers.reverse, total, offset });
    pages.update(offset, rows.length, total, filter ? ` (${count(all)} in all)` : "");
    workerPart.hidden = !total && !filter;
    const address = data.scheduler?.address || "SCHEDULER_ADDRESS";
    fill(none, all || total ? null : claimed ? h("p", { class: "muted" }, "Their rows come in a moment.") : strip.news === "never" ? empty("There is nothing to show before the scheduler is heard. If none runs yet, start one:", "scaler_scheduler tcp://127.0.0.1:2345", "If one runs, end scaler_ui and start it with the monitor address that your scheduler printed.") : empty("No workers are connected, so tasks wait.", `scaler_cluster ${address} -n 4`));
    fill(clients, data.clients.length ? h("table", { "aria-label": "Clients" }, h("thead", {}, h("tr", {}, ["Client", "Open", "Waiting", "Seen"].map((name, i) => h("th", { class: i ? "num" : "" }, name)))),
      h("tbody", {}, data.clients.map((row) => h("tr", {}, h("td", { class: "cut" }, row.label, row.is_away ? h("span", { class: "failed" }, "  lost, awaited") : null), h("td", { class: "num" }, count(row.open)), h("td", { class: "num" }, count(row.waiting)), h("td", { class: "num" }, ago(row.seen)))))) : h("p", { class: "muted" }, "No clients are connected."));
    fill(events, data.events.length ? h("table", { "aria-label": "Events" }, h("tbody", {}, data.events.map((row) => h("tr", {}, h("td", { class: "num" }, clock(row.time, true)), h("td", {}, row.kind), h("td", { class: "cut" }, `${row.subject} ${row.reason}`))))) : h("p", { class: "muted" }, "Nothing has come, gone or been refused since this page's server began."));
    const s = data.scheduler;
    fill(details, s ? [facts([["Address", s.address], ["Started", clock(s.started, true)], ["Version", s.package_version || unknown], ["Memory", bytes(s.rss)], ["Host has free", bytes(s.free)],
      ["Loop lag", `${seconds(s.lag)}, p95 ${seconds(s.lag_most)}`], ["Objects", `${count(s.objects)}, ${bytes(s.object)}${s.shared ? `, ${bytes(s.shared)} of it in shared memory` : ""}`], ["Agents", count(s.agents)],
      ["Succeeded", count(s.ended.success)], ["Failed", count(s.ended.failed)], ["Canceled", count(s.ended.canceled)], ["Not found", count(s.ended.not_found)]]),
      h("div", { class: "grid" }, messages("Sent", data.sent), messages("Received", data.received))] : h("p", { class: "muted" }, unknown));
  }
  return { element, update, args: { window: 300, limit: 50, kept: prefs.kept } };
}
live.title = "Live";

const messages = (title, list) => h("div", {}, h("h2", {}, title), h("table", { "aria-label": `Messages ${title}` }, h("tbody", {}, list.map(([name, n]) => h("tr", {}, h("td", {}, name), h("td", { class: "num" }, count(n)))))));
