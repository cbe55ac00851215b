// The page: which view is shown, the strip above it, the long history, and the keys.

import { h, say, fill, muted, plainTable } from "./dom.js";
import { Socket } from "./socket.js";
import { prefs, set, apply } from "./prefs.js";
import { showStrip, showPause, showClosed } from "./strip.js";
import { openBand, showBand, markRange } from "./band.js";
import { sweep } from "./charts.js";
import { tablePage } from "./table.js";
import { detailPage } from "./detail.js";
import live from "./pages/live.js";
import stream from "./pages/stream.js";
import memory from "./pages/memory.js";
import settings from "./pages/settings.js";
import { graphDrawing } from "./pages/graphs.js";

const layouts = { live, stream, memory, settings };
const tabs = ["live", "tasks", "stream", "functions", "workers", "memory", "graphs", "jobs", "failures"];
const more = ["processors", "clients", "hosts", "agents", "events", "objects", "waiting", "messages", "settings"];
const onPhones = ["live", "tasks", "stream", "failures", "settings"];
const taskStates = ["", "waiting", "queued", "running", "failed", "canceled", "success"];
const inAddress = { filter: String, sort: String, state: String, owner: String, offset: Number, window: Number };
const main = document.getElementById("main");
const named = (name) => name[0].toUpperCase() + name.slice(1);

// The browser stores the token, so it is removed from the address and the history.
if (new URL(location).searchParams.has("token")) history.replaceState(null, "", `./${location.hash}`);
if (location.hash.startsWith("#token=")) history.replaceState(null, "", "./#/live");
apply();

const app = {
  view: null, name: "", id: "", paused: false, shown: 0, args: {}, pages: [...tabs, ...more].map((name) => [name, named(name)]),
  /** Requests the page with other arguments, which its address then has; a step can be undone with Back. */
  want(args = {}, isStep = false) {
    Object.assign(app.args, args);
    if (app.id) app.args.id = app.id;
    const chosen = Object.keys(inAddress).filter((name) => app.args[name] && app.args[name] !== app.view.args?.[name]);
    const query = new URLSearchParams(chosen.map((name) => [name, app.args[name]]));
    const place = addressOf(app.name, app.id) + (query.size ? `?${query}` : "");
    if (isStep) history.pushState(null, "", place);
    else history.replaceState(null, "", place);
    app.socket.want(app.name, { ...app.args, band: prefs.band });
  },
  go(page, id) { location.hash = addressOf(page, id); },
};
const addressOf = (page, id) => `#/${encodeURIComponent(page)}${id ? `/${encodeURIComponent(id)}` : ""}`;

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** The page, the id and the arguments in the address. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, id = ""] = (path || "live").split("/").map(decoded);
  const args = Object.fromEntries([...new URLSearchParams(query)].filter(([key]) => key in inAddress)
    .map(([key, value]) => [key, inAddress[key] === Number ? Math.max(0, Math.trunc(value) || 0) : value]));
  return { name, id, args };
}

function viewOf({ name, id }) {
  if (layouts[name]) return layouts[name](app);
  if (id) return detailPage(app, name === "graphs" || name === "graph" ? graphDrawing(app) : null);
  return tablePage(app, name, name === "tasks" ? { states: taskStates, waits: true } : {});
}

function route() {
  const now = place();
  Object.assign(app, now);
  app.view = viewOf(now);
  app.args = { ...app.view.args, ...now.args };
  document.title = `${named(now.name)}${now.id ? ` ${now.id}` : ""} \u2013 Scaler`;
  fill(main, h("h1", { class: now.id ? "" : "unseen" }, app.view.title ?? named(now.name)), app.view.element);
  sweep();
  for (const a of document.querySelectorAll("#nav a, #tabs a")) {
    const { page } = a.dataset, isMore = page === "settings" && a.closest("#tabs") && !onPhones.includes(now.name);
    if (page === now.name || page === `${now.name}s` || isMore) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.querySelector("#nav details").open = false;
  app.want();
  scrollTo(0, 0);
}

/** An address that leads nowhere: says so, and lists the pages. */
function missing() {
  const text = h("p"), links = app.pages.map(([name, title]) => h("li", {}, h("a", { href: `#/${name}` }, title)));
  return {
    isMissing: true, element: h("div", { class: "empty" }, text, h("ul", {}, links)),
    update: (_, __, why) => say(text, why),
  };
}

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
  if (frame.data === null && !app.view.isMissing) {
    app.view = missing();
    fill(main, h("h1", {}, "No such page"), app.view.element);
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

const nav = (name, text = named(name)) => h("a", { href: `#/${name}`, "data-page": name }, text, h("span", { class: "count" }));
const others = h("details", { class: "more" }, h("summary", {}, "More"), h("div", {}, more.map((name) => nav(name))));
others.addEventListener("focusout", ({ relatedTarget }) => { if (!others.contains(relatedTarget)) others.open = false; });
fill(document.getElementById("nav"), tabs.map((name) => nav(name)), others);
fill(document.getElementById("tabs"), onPhones.map((name) => nav(name, { failures: "Failed", settings: "More" }[name])));

const keys = [
  ["1-9", "pages"], ["/", "filter"], ["Space", "pause, resume"], ["j k, arrows", "rows of a table"],
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
    else if (others.open) others.open = false;
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
  }[event.key] ?? (event.key >= "1" && event.key <= "9" ? () => app.go(tabs[event.key - 1]) : null);
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("hashchange", route);
addEventListener("prefs", () => say(document.getElementById("theme"), `Theme: ${prefs.theme}`));
say(document.getElementById("theme"), `Theme: ${prefs.theme}`);
route();
