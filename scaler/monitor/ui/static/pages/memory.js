// Memory: over time, by host, and the largest objects. Measured, except for shared objects, whose size clients report.

import { h, say, table, gauge, bar, choices, muted, panel } from "../dom.js";
import { timeChart } from "../charts.js";
import { bytes, count, unknown } from "../format.js";
import { prefs, set } from "../prefs.js";

const windows = [300, 1800, 21600, 86400, 604800];
const kinds = ["value", "function", "argument", "result of"];
const places = ["at the scheduler", "shared by its client", "with its agent", "lost"];
const words = { 300: "5 min", 1800: "30 min", 21600: "6 h", 86400: "1 d", 604800: "7 d" };

export default function memory(app) {
  let window = windows.includes(prefs.window) ? prefs.window : 300, end = 0;
  const chart = timeChart({
    label: "Memory over time", tall: true, format: bytes, base: 1024, log: () => prefs.scale === "log",
    lines: [
      { name: "processors", title: "worker processes", kind: "accent" },
      { name: "objects", title: "stored objects", kind: "canceled" },
      { name: "scheduler", title: "scheduler", kind: "success" }, { name: "agents", title: "agents", kind: "running" },
    ],
  });
  const { buttons, press } = choices(windows, (each) => words[each], (to) => pick(to));
  const scale = h("button", { onclick: () => { set("scale", prefs.scale === "log" ? "linear" : "log"); label(); } });
  const used = (row) => (row.free
    ? gauge(row.processes / (row.processes + row.free), bytes(row.processes))
    : bytes(row.processes));
  const part = (held, most) => (most ? gauge(held / most, `${bytes(held)} of ${bytes(most)}`) : bytes(held));
  const hosts = table({ label: "Hosts", key: (row) => row.host, columns: [
    { title: "Host", cell: (row) => row.host }, { title: "Workers", num: true, cell: (row) => count(row.workers) },
    { title: "Worker processes", num: true, cell: used },
    { title: "Agents", num: true, narrow: false, cell: (row) => bytes(row.agents) },
    { title: "Host has free", num: true, cell: (row) => bytes(row.free) }] });
  const values = table({ label: "Values on hosts", key: (row) => row.host, columns: [
    { title: "Host", cell: (row) => row.host },
    { title: "In memory", num: true, cell: (row) => part(row.hot, row.hot_most) },
    { title: "On disk", num: true, cell: (row) => (row.cold_most ? part(row.cold, row.cold_most) : "no disk") },
    { title: "Written", num: true, narrow: false, cell: (row) => bytes(row.spilled) },
    { title: "Read back", num: true, narrow: false, cell: (row) => bytes(row.read) },
    { title: "Workers paused", num: true, cell: (row) => count(row.held) }] });
  const objects = table({ label: "Objects", key: (row) => row.id, columns: [
    { title: "Object", cell: (row) => `${kinds[row.kind]} ${row.name || row.id}` },
    { title: "Size", num: true, cell: (row) => bytes(row.size) },
    { title: "Where", narrow: false, cell: (row) => places[row.place] },
    { title: "Owner", narrow: false, cell: (row) => row.owner || (kinds[row.kind] !== "function" && row.client_label) || unknown },
    { title: "Copies", num: true, cell: (row) => count(row.copies) },
    { title: "Readers", num: true, narrow: false, cell: (row) => count(row.users) }] });
  const hostTitle = h("h2"), objectTitle = h("h2"), none = muted();
  const element = h("div", {}, bar(buttons, scale), chart.element,
    panel(h("h2", {}, "Values on hosts, and their limits"), values.element),
    h("div", { class: "grid" }, panel(hostTitle, hosts.element), panel(objectTitle, objects.element, none)));
  function label() {
    press(window);
    say(scale, `Scale: ${prefs.scale}`);
    chart.renew();
  }
  function pick(to) { window = to; label(); app.want({ window, end }); }
  function update(data) {
    chart.update(data.series, data.series.full ? Math.max(1, data.series.columns.scheduler.length) : undefined);
    hosts.update(data.hosts);
    values.update(data.hosts);
    objects.update(data.objects);
    const some = data.hosts_total > data.hosts.length ? `: ${data.hosts.length} of ${count(data.hosts_total)}` : "";
    say(hostTitle, `Hosts${some}, the least free memory first`);
    const largest = `: the largest ${data.objects.length} of ${count(data.objects_total)}`;
    say(objectTitle, `Objects${data.objects_total > data.objects.length ? largest : ""}`);
    const nothing = data.heard
      ? "No objects are stored: client.send_object(value) stores one for many tasks."
      : "Loading.";
    say(none, data.objects.length ? "" : nothing);
  }
  label();
  const zoom = (by) => pick(windows[Math.max(0, Math.min(4, windows.indexOf(window) + by))]);
  function show(to) { end = to > Date.now() / 1000 ? 0 : to; app.want({ end }); }
  const pan = (by) => show(Math.floor((end || Date.now() / 1000) + (by * window) / 2));
  const chosen = (range) => show(range ? range[1] : 0);
  return { element, update, zoom, pan, now: () => show(0), chosen, args: { window } };
}
memory.title = "Memory";
