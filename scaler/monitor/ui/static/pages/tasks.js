// Tasks: the kept ones, the newest first. New rows wait behind a button, so that rows do not move while they are read.

import { h, say, fill, table, pager, link, state, empty, bar, choices, muted, push, searchBox } from "../dom.js";
import { bytes, clock, count, seconds, unknown } from "../format.js";
import { prefs } from "../prefs.js";

const states = ["", "failed", "canceled", "running", "success"];
const whereIs = (row) => (row.started ? "runs" : row.state === "running" ? "at its worker" : "not yet");
const columns = [
  { title: "State", cell: (row) => state(row.state) },
  { title: "Task", cell: (row) => link("task", row.id, row.name || row.id) },
  { title: "Duration", num: true, cell: (row) => seconds(row.duration) },
  { title: "Peak memory", num: true, narrow: false, cell: (row) => bytes(row.peak) },
  { title: "Worker", narrow: false, cell: (row) => (row.worker ? link("worker", row.worker) : unknown) },
  { title: "Owner", narrow: false, cell: (row) => row.owner || unknown },
  { title: "Ended", num: true, narrow: false, cell: (row) => (row.ended ? clock(row.ended, true) : whereIs(row)) },
  { title: "Why", narrow: false, cell: (row) => h("span", { class: "cut" }, row.reason) },
];

/** A table of tasks that leads to the page of each; `without` is the title of a column that it does not have. */
export function taskTable(app, without = "") {
  return table({
    label: "Tasks", columns: columns.filter((column) => column.title !== without), key: (row) => row.id,
    open: (row) => app.go("task", row.id),
  });
}

export default function tasks(app) {
  let kept = null, newest = null, offset = 0, filter = "", only = "";
  const rows = taskTable(app);
  const pages = pager((to) => { offset = to; ask({ offset }); });
  const says = h("span", { class: "muted" }), none = h("div");
  const fresh = h("button", { hidden: true, onclick: () => take(newest) });
  const search = searchBox("Search tasks", "name, worker, owner, client or reason; !x: without x", (text) => {
    filter = text; offset = 0;
    ask({ filter, offset });
  });
  const { buttons, press } = choices(states, (each) => (each ? state(each) : "all"), (each) => {
    only = each; offset = 0;
    press(only);
    ask({ state: only, offset });
  });
  press(only);
  const range = h("button", { hidden: true, onclick: () => app.choose(null) });
  const element = h("div", {}, bar(search, buttons, range, push(), fresh), rows.element, none, bar(pages.element, says));

  function ask(args) { kept = null; app.want(args); }
  function take(data) {
    kept = data;
    fresh.hidden = true;
    rows.update(data.rows, { total: data.total, offset: data.offset });
    pages.update(data.offset, data.rows.length, data.total);
    fill(none, data.total ? null : filter || only || app.range() ? muted("No task that is kept matches.")
      : empty("No tasks yet. Tasks that were reported since this server started appear here.",
        "client.submit(fn, ...)"));
  }
  function update(data) {
    newest = data;
    say(says, `${count(data.kept)} of ${count(data.ended)} ended tasks are kept: all that were reported, failed and canceled `
      + "ones for longest. The counters above are exact; these rows are a sample.");
    const first = kept?.rows[0]?.id, at = data.rows.findIndex((row) => row.id === first);
    const isRead = scrollY > 120 || element.contains(document.activeElement?.closest?.("tbody"));
    if (!kept || !isRead || (at === 0 && kept.total === data.total)) return take(data);
    if (offset) return;
    fresh.hidden = false;
    say(fresh, at > 0 ? `${at} new` : "more than 50 new");
  }
  function name(now) {
    range.hidden = !now;
    say(range, now ? `${clock(now[0], true)} \u2013 ${clock(now[1], true)}  \u00d7` : "");
  }
  function chosen(now) {
    name(now);
    offset = 0;
    ask({ start: now?.[0] ?? 0, end: now?.[1] ?? 0, offset });
  }
  const now = app.range();
  name(now);
  const span = now ? { start: now[0], end: now[1] } : {};
  return { element, update, chosen, args: { limit: 50, stored: prefs.stored, ...span } };
}
tasks.title = "Tasks";
