// The page: which view is shown, the strip above it, the long history, and the keys.

import { h, say, fill, muted, plainTable } from "./dom.js";
import { Socket } from "./socket.js";
import { prefs, set, apply } from "./prefs.js";
import { showStrip, showPause, showClosed } from "./strip.js";
import { openBand, showBand, markRange } from "./band.js";
import { sweep } from "./charts.js";
import live from "./pages/live.js";
import tasks from "./pages/tasks.js";
import stream from "./pages/stream.js";
import memory from "./pages/memory.js";
import processors from "./pages/processors.js";
import graphs from "./pages/graphs.js";
import jobs from "./pages/jobs.js";
import settings from "./pages/settings.js";
import failures from "./pages/failures.js";
import task from "./pages/task.js";
import worker from "./pages/worker.js";
import func from "./pages/function.js";

const pages = { live, tasks, stream, memory, processors, graphs, jobs, failures, settings, task, worker, function: func };
const shown = ["live", "tasks", "stream", "memory", "processors", "graphs", "jobs", "failures", "settings"];
const onPhones = ["live", "tasks", "stream", "failures", "settings"];
const main = document.getElementById("main");

// The browser stores the token, so it is removed from the address and the history.
if (new URL(location).searchParams.has("token")) history.replaceState(null, "", `./${location.hash}`);
if (location.hash.startsWith("#token=")) history.replaceState(null, "", "./#/live");
apply();

const app = {
  view: null, name: "", id: "", paused: false, shown: 0, args: {},
  /** Requests the page with other arguments. */
  want(args = {}) {
    Object.assign(app.args, args);
    if (app.id) app.args.id = app.id;
    app.socket.want(app.name, { ...app.args, band: prefs.band });
  },
  go(page, id) {
    location.hash = id ? `#/${page}/${encodeURIComponent(id)}` : `#/${page}`;
  },
};

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function route() {
  const [name, id = ""] = (location.hash.replace(/^#\/?/, "") || "live").split("/").map(decoded);
  const page = pages[name] ?? missing;
  Object.assign(app, { name, id, args: {} });
  app.view = page(app);
  document.title = `${page.title}${id ? ` ${id}` : ""} \u2013 Scaler`;
  fill(main, h("h1", { class: id ? "" : "unseen" }, app.view.title ?? page.title), app.view.element);
  sweep();
  for (const a of document.querySelectorAll("#nav a, #tabs a")) {
    const is = a.dataset.page === name || (a.dataset.page === "settings" && a.closest("#tabs") && !onPhones.includes(name));
    if (is) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  app.want(app.view.args ?? {});
  scrollTo(0, 0);
}

/** An address that leads nowhere: says so, and lists the pages. */
function missing(app) {
  const text = h("p", {}, `There is no page ${app.name}.`);
  const links = shown.map((name) => h("li", {}, h("a", { href: `#/${name}` }, pages[name].title)));
  return { element: h("div", { class: "empty" }, text, h("ul", {}, links)), update: (_, __, why) => why && say(text, why) };
}
missing.title = "No such page";

// ---------------------------------------------------------------- ranges of time

let range = null;

/** Shows the tasks of a range of time. */
function choose(start, end) {
  range = start === null ? null : [Math.floor(start), Math.ceil(end)];
  markRange(range);
  if (range && app.name !== "tasks" && app.name !== "memory") app.go("tasks");
  else app.view.chosen?.(range);
}
app.choose = choose;
app.range = () => range;
addEventListener("range", ({ detail }) => choose(...detail));
openBand(document.getElementById("band"), () => app.want());

// ---------------------------------------------------------------- frames

function show(frame) {
  if (app.paused && frame.wish === app.shown) return; // another page, or its next rows, are shown once
  app.shown = frame.wish;
  showStrip(frame.strip, app.paused);
  if (frame.band) showBand(frame.band);
  if (frame.data === null && app.view.isMissing !== true) {
    app.view = { ...missing(app), isMissing: true };
    fill(main, h("h1", {}, missing.title), app.view.element);
    sweep();
  }
  app.view.update(frame.data, frame.strip, frame.missing);
}

function pause() {
  app.paused = !app.paused;
  if (app.paused) showPause();
  else app.want();
}

app.socket = new Socket(show, (state) => state === "closed" && showClosed());

// ---------------------------------------------------------------- navigation and keys

const nav = (name, short = pages[name].title) =>
  h("a", { href: `#/${name}`, "data-page": name }, short, h("span", { class: "count" }));
fill(document.getElementById("nav"), shown.map((name) => nav(name)));
fill(document.getElementById("tabs"), onPhones.map((name) => nav(name, { failures: "Failed", settings: "More" }[name])));

const keys = [
  ["1-9", "pages"], ["/", "search"], ["Space", "pause, resume"], ["j k, arrows", "rows of a table"],
  ["Enter", "open the row"], ["Esc", "back"], ["[ ]", "earlier, later"], ["+ -", "shorter, longer window"],
  ["0", "now"], ["t", "light, dark, or as the system"], ["?", "these keys"],
];
const dialog = document.getElementById("keys");
fill(dialog, h("h2", {}, "Keys"), plainTable("Keys", [], keys.map(([key, what]) => [h("kbd", {}, key), what])),
  muted("This page only shows; it changes nothing in the cluster."), h("button", { onclick: () => dialog.close() }, "Close"));
document.getElementById("help").addEventListener("click", () => dialog.showModal());
document.getElementById("skip").addEventListener("click", () => main.focus());
const theme = () => set("theme", { system: "light", light: "dark", dark: "system" }[prefs.theme]);
document.getElementById("theme").addEventListener("click", theme);

function move(by) {
  const rows = [...main.querySelectorAll("tbody tr[tabindex='0']")];
  const at = rows.indexOf(document.activeElement?.closest?.("tr"));
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]?.focus();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (app.id) history.back();
    else choose(null);
    return;
  }
  if (typing) return;
  const onButton = event.target.matches("button, a, summary");
  const act = {
    "/": () => main.querySelector("input[type=search]")?.focus(),
    " ": onButton ? null : pause,
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
    "[": () => app.view.pan?.(-1), "]": () => app.view.pan?.(1),
    "+": () => app.view.zoom?.(-1), "-": () => app.view.zoom?.(1),
    0: () => (choose(null), app.view.now?.()), t: theme, "?": () => dialog.showModal(),
  }[event.key] ?? (event.key >= "1" && event.key <= "9" ? () => app.go(shown[event.key - 1]) : null);
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("hashchange", route);
addEventListener("prefs", () => say(document.getElementById("theme"), `Theme: ${prefs.theme}`));
say(document.getElementById("theme"), `Theme: ${prefs.theme}`);
route();
