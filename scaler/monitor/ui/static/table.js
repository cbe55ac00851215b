// Tables: one renderer for the rows of every view. The server sends columns with types, and the rows of one page.

import { h, say, fill, link, state, gauge, failedCount, muted, empty, searchBox, choices, push, bar, pager,
  panel } from "./dom.js";
import { ago, bytes, clock, count, percent, seconds, unknown } from "./format.js";
import { copyText, readText, saveView } from "./export.js";
import { prefs } from "./prefs.js";

const numbers = new Set(["count", "pid", "seconds", "bytes", "share", "clock"]);
const texts = {
  count, seconds, bytes, percent,
  clock: (value) => clock(value, true),
  share: (value) => gauge(value, percent(value)),
  bar: (value) => gauge(value, percent(value)),
  state: (value) => state(value),
};

/** A value by its type, as text or element. */
export function shown(type, value, isBad = false) {
  if (value === null || value === undefined || value === "") return unknown;
  return isBad && type === "count" ? failedCount(value) : (texts[type] ?? String)(value);
}

/** What a row opens: the details of its subject, unless the server names something else. */
const targetOf = (row, view) => (row.to === undefined ? [view, row.id] : row.to);

function cellOf(column, row, isFirst, view) {
  const id = row.links?.[column.name], value = row[column.name];
  const content = id && column.link && value ? link(column.link, id, shown(column.type, value))
    : shown(column.type, value, column.bad);
  if (!isFirst) return content;
  const leaves = ["lost", "draining"].includes(row.state) && row.state;
  const marks = [row.flag && `\u26a0 ${row.flag}`, leaves, row.gone !== undefined && `left ${ago(row.gone)}`].filter(Boolean);
  const to = targetOf(row, view), name = to ? link(...to, content) : content;
  if (!marks.length) return name;
  return h("span", {}, name, h("span", { class: row.flag ? "failed" : "muted" }, `  ${marks.join(", ")}`));
}

const classes = ({ type }, index) => [
  numbers.has(type) ? "num" : "cut", index ? "" : "wide", type === "text" || type === "wait" ? "long" : "",
].join(" ").trim();
const LEAST_COLUMNS = 3;

/** The rows of a view, updated in place, so that focus, selection and scrolling survive. sort: called with an order. */
export function tableOf(app, label, sort) {
  const head = h("tr"), body = h("tbody"), rows = new Map();
  const grid = h("table", { "aria-label": label }, h("thead", {}, head), body);
  const element = h("div", { class: "scroll", tabIndex: 0, role: "group", "aria-label": label }, grid);
  let columns = [], shape = "", view = "", less = [], dropped = [];
  new ResizeObserver(() => { dropped = []; fit(); }).observe(element);

  /** Leaves out the columns that matter least, until the others fit. */
  function fit() {
    const show = () => columns.forEach(({ name }, index) => {
      const isOff = dropped.includes(name);
      for (const row of grid.rows) if (row.children[index].hidden !== isOff) row.children[index].hidden = isOff;
    });
    show();
    while (element.scrollWidth > element.clientWidth && dropped.length < Math.min(less.length, columns.length - LEAST_COLUMNS)) {
      dropped.push(less[dropped.length]);
      show();
    }
  }

  function heads(data) {
    const now = JSON.stringify(data.columns);
    if (now === shape) return;
    (shape = now), (columns = data.columns), (less = data.less), (dropped = []);
    body.replaceChildren();
    rows.clear();
    fill(head, columns.map((column, index) => {
      const press = () => sort(turned(column));
      const title = column.sort && sort ? h("button", { class: "sort", onclick: press }, column.title) : column.title;
      return h("th", { scope: "col", class: classes(column, index), title: column.meaning }, title);
    }));
  }
  let order = "";
  /** The order after a press on a heading: first the usual direction, then the other one. */
  function turned({ name, type }) {
    const usual = numbers.has(type) || type === "bar" ? `-${name}` : name;
    if (order !== usual) return usual;
    return usual.startsWith("-") ? name : `-${name}`;
  }
  function rowOf() {
    const row = h("tr", {}, columns.map((column, index) => h("td", { class: classes(column, index) })));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target === row && row.target) app.go(...row.target);
    });
    row.shown = [];
    return row;
  }
  function cells(row, data) {
    columns.forEach((column, index) => {
      const value = cellOf(column, data, index === 0, view), mark = value instanceof Node ? value.outerHTML : String(value);
      if (row.shown[index] === mark) return;
      row.shown[index] = mark;
      row.children[index].replaceChildren(value);
      if (!numbers.has(column.type)) row.children[index].title = value instanceof Node ? value.textContent : mark;
    });
  }
  function update(data) {
    heads(data);
    (order = data.sort), (view = data.view);
    const focused = document.activeElement, mine = body.contains(focused) ? focused.closest("tr") : null;
    const seen = new Set(data.rows.map((row) => row.id));
    for (const [id, row] of rows) if (!seen.has(id)) (row.remove(), rows.delete(id));
    let place = body.firstChild;
    data.rows.forEach((each, position) => {
      let row = rows.get(each.id);
      if (!row) rows.set(each.id, (row = rowOf()));
      row.data = each;
      row.target = targetOf(each, view);
      if (row.target) row.tabIndex = 0;
      row.setAttribute("aria-rowindex", data.offset + position + 2);
      row.classList.toggle("flagged", Boolean(each.flag));
      row.classList.toggle("gone", each.gone !== undefined);
      cells(row, each);
      if (row === place) place = place.nextSibling;
      else body.insertBefore(row, place);
    });
    // A row that is moved, or a link that is made anew, loses the focus.
    if (mine?.isConnected && !mine.contains(document.activeElement)) {
      (focused === mine ? mine : mine.querySelector("a") ?? mine).focus({ preventScroll: true });
    }
    grid.setAttribute("aria-rowcount", data.total + 1);
    element.hidden = !data.rows.length;
    fit();
    if (data.rows.some((row) => targetOf(row, view))) element.removeAttribute("tabindex"); // the rows take the focus
    columns.forEach((column, index) => {
      const button = head.children[index].querySelector("button"), isDown = order === `-${column.name}`;
      const isMine = isDown || order === column.name;
      if (!button) return;
      head.children[index].setAttribute("aria-sort", isMine ? (isDown ? "descending" : "ascending") : "none");
      say(button, isMine ? `${column.title} ${isDown ? "\u25be" : "\u25b4"}` : column.title);
    });
  }
  return { element, update, body };
}

/** The text in place of rows. */
export function nothing(data, isFiltered) {
  if (data.rows.length) return null;
  if (isFiltered && data.all) return muted("No row matches the filter.");
  const { text, command, more } = data.empty;
  return empty(text, command, more);
}

/** Links that take the rows of a view along; the server answers only with the token, which the page adds. */
export function exports(view, args) {
  const place = (format) => {
    const query = new URLSearchParams(Object.entries(args()).filter(([, value]) => value));
    return `view/${view}.${format}${query.size ? `?${query}` : ""}`;
  };
  const save = (format) => h("a", {
    href: `view/${view}.${format}`, title: `Save these rows as ${format.toUpperCase()}`,
    onclick: (event) => { event.preventDefault(); saveView(place(format), `${view}.${format}`); },
  }, format.toUpperCase());
  return h("span", { class: "exports" }, save("json"), save("csv"), copier(() => readText(place("csv"))));
}

/** A button that copies a text. */
export function copier(text) {
  const button = h("button", { class: "quiet", title: "Copy these rows", onclick: async () => {
    say(button, await copyText(await text()) ? "Copied" : "Not copied");
    setTimeout(() => say(button, "Copy"), 2000);
  } }, "Copy");
  return button;
}

/** Rows as lines of values between tabs, as spreadsheets take them. */
export const tabbed = ({ columns, rows }) => [columns.map(({ title }) => title),
  ...rows.map((row) => columns.map(({ name }) => String(row[name] ?? "").replace(/\s+/g, " ")))]
  .map((line) => line.join("\t")).join("\n");

/** A part of a page with the first rows of another view; its heading leads to all of them. */
export function section(app, name, title) {
  const rows = tableOf(app, title), some = h("span", { class: "muted" }), none = h("div");
  const heading = h("h2", {}, h("a", { href: `#/${name}` }, title), some);
  return { element: panel(bar(heading, push(), exports(name, () => ({}))), rows.element, none), update(frame) {
    rows.update(frame);
    say(some, frame.rows.length < frame.all ? `  ${frame.rows.length} of ${count(frame.all)}` : "");
    fill(none, nothing(frame));
  } };
}

/**
 * A page with the rows of one view: search, order, pages, and links to take them along. states: buttons that choose one.
 * waits: whether new rows wait behind a button while the rows are read, so that they do not move.
 */
export function tablePage(app, name, { states, waits = false, words = "" } = {}) {
  const search = searchBox("Filter rows", words || "filter; !x: without x", (filter) => ask({ filter, offset: 0 }));
  const rows = tableOf(app, name, (sort) => ask({ sort, offset: 0 }, true));
  const pages = pager((offset) => ask({ offset }, true)), none = h("div"), note = muted();
  const fresh = h("button", { hidden: true, onclick: () => take(newest) });
  const range = h("button", { hidden: true, onclick: () => app.choose(null) });
  const { buttons, press } = choices(states ?? [], (each) => (each ? state(each) : "all"), (each) => {
    press(each);
    ask({ state: each, offset: 0 }, true);
  });
  let kept = null, newest = null;
  search.value = app.args.filter ?? "";
  press(app.args.state ?? "");
  const asked = () => {
    const { filter, sort, state, owner, start, end } = app.args;
    return { filter, sort, state, owner, start, end };
  };
  const element = h("div", {}, bar(search, buttons, range, push(), fresh, exports(name, asked)), rows.element, none,
    bar(pages.element, note));

  function ask(args, isStep = false) { kept = null; app.want(args, isStep); }
  function take(data) {
    kept = data;
    fresh.hidden = true;
    rows.update(data);
    pages.update(data.offset, data.rows.length, data.total, data.all > data.total ? ` (${count(data.all)} in all)` : "");
    fill(none, nothing(data, search.value || app.args.state || app.range()));
  }
  function update(data) {
    newest = data;
    say(note, data.note);
    const first = kept?.rows[0]?.id, at = data.rows.findIndex((row) => row.id === first);
    const isRead = waits && (scrollY > 120 || rows.body.contains(document.activeElement));
    if (!kept || !isRead || (at === 0 && kept.total === data.total)) return take(data);
    if (data.offset) return;
    fresh.hidden = false;
    say(fresh, at > 0 ? `${at} new` : "more than 50 new");
  }
  function named(now) {
    range.hidden = !now;
    say(range, now ? `${clock(now[0], true)} \u2013 ${clock(now[1], true)}  \u00d7` : "");
  }
  function chosen(now) {
    named(now);
    ask({ start: now?.[0] ?? 0, end: now?.[1] ?? 0, offset: 0 });
  }
  const now = app.range();
  named(now);
  const { kept: keep, stored } = prefs;
  return { element, update, chosen, args: { limit: 50, kept: keep, stored, ...(now ? { start: now[0], end: now[1] } : {}) } };
}
