// The page: which view is shown, the strip above it, the long history, and the keys.

import { h, say, fill, muted, plainTable } from "./dom.js";
import { Socket } from "./socket.js";
import { prefs, set, apply } from "./prefs.js";
import { count, short, rate, clock, seconds } from "./format.js";
import { sheet, token, timeAxis, strokeLine } from "./charts.js";
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
const main = document.getElementById("main"), strip = document.getElementById("strip");

// The browser stores the token, so it is removed from the address and the history.
if (new URL(location).searchParams.has("token")) history.replaceState(null, "", `./${location.hash}`);
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
  const [name, id = ""] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const page = pages[name];
  if (!page) return location.replace("#/live");
  Object.assign(app, { name, id, args: {} });
  app.view = page(app);
  document.title = `${page.title}${id ? ` ${id}` : ""} \u2013 Scaler`;
  fill(main, h("h1", { class: id ? "" : "unseen" }, app.view.title ?? page.title), app.view.element);
  for (const a of document.querySelectorAll("#nav a, #tabs a")) {
    const is = a.dataset.page === name || (a.dataset.page === "settings" && a.closest("#tabs") && !onPhones.includes(name));
    if (is) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  app.want(app.view.args ?? {});
  scrollTo(0, 0);
}

// ---------------------------------------------------------------- the strip

const parts = {
  verdict: h("span", {}), sentence: h("small", {}), rate: h("b"), left: h("b"), open: h("b"), failed: h("b"),
  recent: h("span", { class: "muted" }), busy: h("b"), advice: h("div", { class: "advice" }),
};
const figure = (label, value, more, name = "") =>
  h("span", { class: `figure ${name}` }, value, h("span", { class: "muted" }, ` ${label}`), more);
const news = h("span", { class: "news" });
const leftFigure = figure("left", parts.left), failedFigure = figure("failed", parts.failed, parts.recent);
fill(strip, h("div", { class: "verdict", role: "status" }, parts.verdict, parts.sentence),
  figure("tasks/s", parts.rate), leftFigure, figure("open", parts.open, null, "optional"), failedFigure,
  figure("workers busy", parts.busy, null, "optional"), news, parts.advice);

function showStrip(said) {
  const isOld = said.news === "old";
  strip.classList.toggle("bad", isOld);
  document.body.classList.toggle("old", isOld);
  const [title, sentence, mark] = {
    never: ["Waiting for the scheduler", "the scheduler has sent nothing yet", "\u25cb waiting"],
    old: [`No news for ${seconds(Math.floor(said.silent))}`, `shown as of ${clock(said.at)}, reconnecting`,
      `\u25cb as of ${clock(said.at)}`],
    live: [said.title, said.sentence, `\u25cf live ${clock(said.at)}`],
  }[said.news];
  say(parts.verdict, title);
  say(parts.sentence, sentence);
  parts.sentence.title = said.news === "live" ? sentence : "";
  say(parts.rate, rate(said.rate));
  leftFigure.hidden = !said.left;
  say(parts.left, said.left || "-");
  say(parts.open, short(said.open));
  parts.open.title = count(said.open);
  say(parts.failed, `${said.failed ? "\u2717 " : ""}${count(said.failed)}`);
  failedFigure.classList.toggle("failed", said.failed > 0);
  say(parts.recent, said.failed_minute ? ` +${count(said.failed_minute)}/min` : "");
  say(parts.busy, said.workers === null ? "-" : `${count(said.busy ?? 0)} of ${count(said.workers)}`);
  fill(parts.advice, ...advice(said));
  parts.advice.hidden = !parts.advice.childNodes.length;
  say(news, app.paused ? "\u2016 paused" : mark);
  const failures = said.failures ? ` \u2717${count(said.failures)}` : "";
  for (const a of document.querySelectorAll("[data-page=failures] .count")) say(a, failures);
}

function advice(said) {
  if (said.problem) return [said.problem];
  const address = h("code", {}, said.address);
  if (said.news === "never") {
    return ["Is scaler_scheduler running, and is ", address,
      " the monitor address that it printed? This page connects by itself."];
  }
  if (said.news === "old") return ["Is scaler_scheduler still running at ", address, "?"];
  if (said.restart) {
    const back = `${count(said.restart.back)} of ${count(said.restart.of)} workers are back`;
    return [`The scheduler was restarted at ${clock(said.restart.at)}, its counters started from 0; ${back}.`];
  }
  if (said.warning) return ["\u26a0 ", said.warning];
  return [];
}

// ---------------------------------------------------------------- the long history

let band = null, range = null, from = null;
const dragged = () => [Math.min(from.x, from.to), Math.max(from.x, from.to)];
const bandSheet = sheet((context, width, height) => {
  if (!band) return;
  const { success, failed, canceled } = band.columns;
  const low = height - 14, end = band.start + success.length * band.step, each = width / success.length;
  const most = Math.max(1e-9, ...success.map((value, i) => (value || 0) + (failed[i] || 0) + (canceled[i] || 0)));
  success.forEach((value, i) => {
    if (value === null) {
      context.fillStyle = token("hair");
      return context.fillRect(i * each, low - 1, each, 1);
    }
    const good = ((value + (canceled[i] || 0)) / most) * (low - 2);
    const bad = failed[i] ? Math.max(2, (failed[i] / most) * (low - 2)) : 0;
    context.fillStyle = token("line");
    context.fillRect(i * each, low - good, Math.max(1, each - 0.5), good);
    context.fillStyle = token("failed");
    context.fillRect(i * each, low - good - bad, Math.max(1, each - 0.5), bad);
  });
  const first = success.findIndex((value) => value !== null);
  if (first < 0 || first * each > 200) {
    context.fillStyle = token("ink2");
    context.textAlign = "right";
    const room = (first < 0 ? width : first * each) - 8, short = "nothing was recorded before";
    const whole = short + (band.kept ? "" : ": scaler_ui --store FILE keeps a week");
    context.fillText(context.measureText(whole).width < room ? whole : short, room, 16);
  }
  context.strokeStyle = token("line");
  strokeLine(context, 0, low + 0.5, width, low + 0.5);
  const xOf = (at) => ((at - band.start) / (end - band.start)) * width;
  for (const at of band.restarts) {
    const x = xOf(at);
    context.fillStyle = token("accent");
    context.fillRect(x, 0, 2, low);
    context.textAlign = "left";
    context.fillText("restart", x + 4, 10);
  }
  const chosen = from !== null ? dragged() : range?.map(xOf);
  if (chosen) {
    context.fillStyle = token("accent"); context.globalAlpha = 0.25;
    context.fillRect(chosen[0], 0, Math.max(2, chosen[1] - chosen[0]), low); context.globalAlpha = 1;
  }
  timeAxis(context, 0, width, height, band.start, end);
}, "Tasks per second over the last hours; failed ones in red on top. Drag to see the tasks of a range.");
const bandLabel = h("span", { class: "label" });
document.getElementById("band").append(bandLabel, bandSheet.canvas);
const bandTime = (x) => band.start + (x / bandSheet.canvas.clientWidth) * band.columns.success.length * band.step;
bandSheet.canvas.addEventListener("pointerdown", (event) => { if (band) from = { x: event.offsetX, to: event.offsetX }; });
bandSheet.canvas.addEventListener("pointermove", (event) => {
  if (from) (from.to = event.offsetX), bandSheet.later();
  if (band) bandSheet.canvas.title = clock(bandTime(event.offsetX), true);
});
bandSheet.canvas.addEventListener("pointerup", () => {
  if (from && Math.abs(from.to - from.x) > 4) choose(...dragged().map(bandTime));
  from = null;
  bandSheet.later();
});
addEventListener("pointerup", () => { from = null; });

/** Shows the tasks of a range of time. */
function choose(start, end) {
  range = start === null ? null : [Math.floor(start), Math.ceil(end)];
  bandSheet.later();
  if (range && app.name !== "tasks" && app.name !== "memory") app.go("tasks");
  else app.view.chosen?.(range);
}
app.choose = choose;
app.range = () => range;

// ---------------------------------------------------------------- frames

function show(frame) {
  if (app.paused && frame.wish === app.shown) return; // another page, or its next rows, are shown once
  app.shown = frame.wish;
  showStrip(frame.strip);
  if (frame.band) {
    band = frame.band;
    const span = band.columns.success.length * band.step;
    const [size, unit] = [[86400, "d"], [3600, "h"], [60, "m"]].find(([size]) => span >= size);
    say(bandLabel, `tasks/s, last ${Math.round(span / size)} ${unit}`);
    bandSheet.later();
  }
  app.view.update(frame.data, frame.strip);
}

function pause() {
  app.paused = !app.paused;
  if (app.paused) say(news, "\u2016 paused");
  else app.want();
}

app.socket = new Socket(show, (state) => {
  if (state === "open") return;
  strip.classList.add("bad");
  document.body.classList.add("old");
  say(parts.verdict, "No connection");
  say(parts.sentence, "to the server of this page, reconnecting");
  fill(parts.advice,
    "Is scaler_ui still running? If it was restarted with another token, open the address that it printed.");
  parts.advice.hidden = false;
  say(news, "\u25cb not connected");
});

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
