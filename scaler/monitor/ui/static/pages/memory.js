// Memory: over time, by host, and the largest objects. Measured, except for shared objects, whose size clients report.

import { h, say, bar, choices } from "../dom.js";
import { timeChart } from "../charts.js";
import { section } from "../table.js";
import { bytes } from "../format.js";
import { prefs, set } from "../prefs.js";

const words = { 300: "5 min", 1800: "30 min", 21600: "6 h", 86400: "1 d", 604800: "7 d" };
const windows = Object.keys(words).map(Number);

export default function memory(app) {
  let window = app.args.window ?? (windows.includes(prefs.window) ? prefs.window : 300), end = 0;
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
  const hosts = section(app, "hosts", "Hosts, the least free memory first");
  const objects = section(app, "objects", "The largest objects");
  const element = h("div", {}, bar(buttons, scale), chart.element, hosts.element, objects.element);
  function label() {
    press(window);
    say(scale, `Scale: ${prefs.scale}`);
    chart.renew();
  }
  function pick(to) { window = to; label(); app.want({ window, end }); }
  function update(data) {
    chart.update(data.series, data.series.full ? Math.max(1, data.series.columns.scheduler.length) : undefined);
    hosts.update(data.hosts);
    objects.update(data.objects);
  }
  label();
  const zoom = (by) => pick(windows[Math.max(0, Math.min(4, windows.indexOf(window) + by))]);
  function show(to) { end = to > Date.now() / 1000 ? 0 : to; app.want({ end }); }
  const pan = (by) => show(Math.floor((end || Date.now() / 1000) + (by * window) / 2));
  const chosen = (range) => show(range ? range[1] : 0);
  return { element, update, zoom, pan, now: () => show(0), chosen, args: { window } };
}
memory.title = "Memory";
