// Live: rates, functions and what they wait for, clients, events, and each worker, those that look stuck first.

import { h, say, fill, pager, facts, empty, bar, muted, panel, push, searchBox } from "../dom.js";
import { timeChart } from "../charts.js";
import { exports, nothing, section, shown, tableOf } from "../table.js";
import { count, percent, rate } from "../format.js";
import { prefs } from "../prefs.js";

const outcomes = ["success", "canceled", "failed"].map((name) => ({ name, title: name, kind: name }));
const parts = { functions: "Functions", waiting: "Waiting tasks", clients: "Clients", events: "Events" };

export default function live(app) {
  const chart = timeChart({ label: "Tasks per second by outcome", lines: outcomes, stacked: true, format: rate });
  const load = timeChart({
    label: "Processor time of the scheduler", format: percent, fixed: 0.2,
    lines: [{ name: "cpu", title: "scheduler, share of a core", kind: "accent" }],
  });
  const [functions, waiting, clients, events] = Object.entries(parts).map(([name, title]) => section(app, name, title));
  const order = (sort) => app.want({ sort, offset: 0 }, true);
  const workers = tableOf(app, "Workers", order), pages = pager((offset) => app.want({ offset }, true));
  const search = searchBox("Filter workers", "worker, host or function; !x: without x",
    (filter) => app.want({ filter, offset: 0 }));
  search.value = app.args.filter ?? "";
  const first = h("button", { onclick: () => order("") }, "Stuck first");
  const amount = h("span"), title = h("h2", {}, h("a", { href: "#/workers" }, "Workers"), amount);
  const none = h("div"), about = h("div"), messages = tableOf(app, "Messages");
  const asked = () => ({ filter: app.args.filter, sort: app.args.sort });
  const workerPart = h("div", {}, bar(search, first, push(), pages.element, exports("workers", asked)), workers.element);
  const numbers = h("div", { class: "grid" }, panel("Tasks per second", chart.element), functions.element);
  const rest = h("div", {}, h("div", { class: "grid" }, h("div", {}, waiting.element, clients.element), events.element),
    h("details", { class: "panel" }, h("summary", {}, "Scheduler: memory, objects, messages"), load.element, about,
      h("div", { class: "fit" }, messages.element)));
  const element = h("div", {}, numbers, panel(title, none, workerPart), rest);

  function update(data, strip) {
    numbers.hidden = rest.hidden = title.hidden = strip.news === "never";
    chart.update(data.series, 300);
    load.update(data.series, 300);
    functions.update(data.functions);
    waiting.update(data.waiting);
    clients.update(data.clients);
    events.update(data.events);
    const { rows, offset, total, all } = data.workers, { claimed, flagged } = data;
    say(amount, `: ${count(all || claimed)}${flagged ? `, \u26a0 ${count(flagged)} look stuck` : ""}`);
    workers.update(data.workers);
    pages.update(offset, rows.length, total, search.value ? ` (${count(all)} in all)` : "");
    workerPart.hidden = !total && !search.value;
    fill(none, all || total ? null : claimed ? muted("Loading.") : strip.news === "never" ? noScheduler() : nothing(data.workers));
    const fact = ([name, type, value]) => [name, shown(type, value)];
    if (data.scheduler.subject) fill(about, facts(data.scheduler.facts.map(fact)));
    messages.update(data.messages);
  }
  return { element, update, args: { window: 300, limit: 50, kept: prefs.kept } };
}
live.title = "Live";

const noScheduler = () => empty("There is nothing to show until the scheduler answers. If none is running, start one:",
  "scaler_scheduler tcp://127.0.0.1:2345",
  "If one is running, restart scaler_ui with the monitor address that the scheduler printed.");
