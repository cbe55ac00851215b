// One worker: what it does now and did in the last minutes, its processes, and the kept tasks that ran there.

import { h, say, fill, table, facts, empty } from "../dom.js";
import { bytes, count, percent, seconds, ago, unknown } from "../format.js";
import { taskColumns } from "./tasks.js";
import { processColumns } from "./processors.js";
import { Lanes } from "../lanes.js";

export default function worker(app) {
  const head = h("p"), about = h("div"), ran = h("p", { class: "muted" }), body = h("div");
  const lanes = new Lanes(() => {});
  const processes = table({ label: "Processes", columns: processColumns.slice(1), key: (row) => row.pid });
  const rows = table({ label: "Tasks", columns: taskColumns.filter((column) => column.title !== "Worker"), key: (row) => row.id, open: (row) => app.go("task", row.id) });
  const none = h("p", { class: "muted" });
  fill(body, head, about, h("section", { class: "panel" }, h("h2", {}, "Last 5 minutes"), lanes.element, ran),
    h("section", { class: "panel" }, h("h2", {}, "Processes"), processes.element), h("section", { class: "panel" }, h("h2", {}, "Kept tasks"), rows.element, none));
  const missing = h("div"), element = h("div", {}, missing, body);
  function update(data) {
    const row = data.worker;
    body.hidden = !row;
    fill(missing, row ? null : empty("No worker of this name is connected, and none left in the last hour.", null, "Workers show here from their first report on."));
    if (!row) return;
    document.querySelector("h1").textContent = `Worker ${row.name}`;
    fill(head, row.flag ? h("span", { class: "failed" }, `\u26a0 ${row.flag}`) : row.gone !== null ? `It left ${ago(row.gone)}.` : row.running === null ? "It runs nothing now." : `It runs ${row.function} for ${seconds(row.running)}.`, row.leaving ? `  Its agent: ${row.leaving}.` : "",
      data.same_name ? `  ${count(data.same_name)} further workers have the same name.` : "");
    fill(about, facts([["Host", row.host], ["CPU", percent(row.cpu)], ["Memory", bytes(row.rss)], ["Tasks here", count(row.sent)], ["Queued", count(row.queued)], ["Places free", count(row.free)], ["Suspended", count(row.suspended)],
      ["Runs ended", count(data.about.ended)], ["Seen", ago(row.seen)], ["Lag", seconds(row.lag)], ["Agent", `${data.about.agent_pid || unknown}, ${percent(row.agent_cpu)}, ${bytes(row.agent_rss)}`], ["Host has free", bytes(row.rss_free)],
      ["Engine", data.about.engine || unknown], ["Python", data.about.python || unknown], ["Capabilities", data.about.capabilities || "none"]]));
    lanes.update({ full: true, end: data.lane.end, count: 300, step: 1, points: 300, lanes: [["", row.name, row.host, data.lane.busy, data.lane.ends]], tasks: data.lane.tasks });
    say(ran, data.ran.length ? `Kept busy by ${data.ran.map(([name, n]) => `${name} (${n} s)`).join(", ")}.` : "No run has ended there in this time.");
    processes.update(data.processors);
    rows.update(data.tasks);
    say(none, data.tasks.length ? "" : "None of the kept tasks ran here.");
  }
  return { element, update, title: "Worker" };
}
worker.title = "Worker";
