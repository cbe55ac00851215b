// One worker: what it does now and did in the last minutes, its processes, and the kept tasks that ran there.

import { h, say, fill, table, facts, empty, muted, panel } from "../dom.js";
import { bytes, count, percent, seconds, ago, unknown } from "../format.js";
import { taskTable } from "./tasks.js";
import { processColumns } from "./processors.js";
import { Lanes } from "../lanes.js";

export default function worker(app) {
  const head = h("p"), about = h("div"), ran = muted(), body = h("div");
  const lanes = new Lanes(() => {});
  const processes = table({ label: "Processes", columns: processColumns.slice(1), key: (row) => row.pid });
  const rows = taskTable(app, "Worker"), none = muted();
  fill(body, head, about, panel("Last 5 minutes", lanes.element, ran), panel("Processes", processes.element),
    panel("Kept tasks", rows.element, none));
  const missing = h("div"), element = h("div", {}, missing, body);
  function update(data) {
    const row = data.worker;
    body.hidden = !row;
    fill(missing, row ? null : empty("No worker of this name is connected, and none left in the last hour.", null,
      "Workers appear here with their first report."));
    if (!row) return;
    document.querySelector("h1").textContent = `Worker ${row.name}`;
    fill(head, row.flag ? h("span", { class: "failed" }, `\u26a0 ${row.flag}`) : doing(row),
      row.leaving ? `  Its agent: ${row.leaving}.` : "",
      data.same_name ? `  ${count(data.same_name)} further workers have the same name.` : "");
    fill(about, facts(factsOf(row, data.about)));
    const { end, busy, ends, tasks } = data.lane;
    lanes.update({ full: true, end, count: 300, step: 1, points: 300, lanes: [["", row.name, row.host, busy, ends]], tasks });
    const functions = data.ran.map(([name, n]) => `${name} (${n} s)`).join(", ");
    say(ran, functions ? `Kept busy by ${functions}.` : "No run ended there in this time.");
    processes.update(data.processors);
    rows.update(data.tasks);
    say(none, data.tasks.length ? "" : "None of the kept tasks ran here.");
  }
  return { element, update, title: "Worker" };
}

function doing(row) {
  if (row.gone !== null) return `This worker left ${ago(row.gone)}.`;
  return row.running === null ? "It runs no task now." : `It runs ${row.function} for ${seconds(row.running)}.`;
}

const factsOf = (row, about) => [
  ["Host", row.host], ["CPU", percent(row.cpu)], ["Memory", bytes(row.rss)], ["Tasks", count(row.sent)],
  ["Queued", count(row.queued)], ["Places free", count(row.free)], ["Suspended", count(row.suspended)],
  ["Runs ended", count(about.ended)], ["Seen", ago(row.seen)], ["Lag", seconds(row.lag)],
  ["Agent", `${about.agent_pid || unknown}, ${percent(row.agent_cpu)}, ${bytes(row.agent_rss)}`],
  ["Host has free", bytes(row.rss_free)], ["Engine", about.engine || unknown], ["Python", about.python || unknown],
  ["Capabilities", about.capabilities || "none"],
];
worker.title = "Worker";
