// Processors: the processes of each worker, and what they run.

import { h, fill, table, pager, gauge, link, empty, bar, push, muted, searchBox } from "../dom.js";
import { bytes, count, percent, seconds } from "../format.js";

const yes = (value) => (value ? "yes" : h("span", { class: "muted" }, "no"));
const [initialized, hasTask, suspended] = [1, 2, 4]; // bits of the flags of a process
const linkOf = (row) => link("task", row.task, `${row.function} ${seconds(row.running)}`);
export const processColumns = [
  { title: "Worker", cell: (row) => link("worker", row.worker_key, row.worker) },
  { title: "Process", num: true, cell: (row) => row.pid },
  { title: "CPU", num: true, cell: (row) => gauge(row.cpu, percent(row.cpu)) },
  { title: "Memory", num: true, cell: (row) => bytes(row.rss) },
  { title: "Peak", num: true, narrow: false, cell: (row) => bytes(row.peak) },
  { title: "Initialized", narrow: false, cell: (row) => yes(row.flags & initialized) },
  { title: "Has task", narrow: false, cell: (row) => yes(row.flags & hasTask) },
  { title: "Suspended", narrow: false, cell: (row) => yes(row.flags & suspended) },
  { title: "Task", narrow: false, cell: (row) => (row.flags & hasTask ? linkOf(row) : "") },
];

export default function processors(app) {
  const open = (row) => app.go("worker", row.worker_key);
  const rows = table({ label: "Processes of workers", columns: processColumns, key: (row) => row.key, open });
  const pages = pager((offset) => app.want({ offset })), none = h("div");
  const search = searchBox("Filter processes", "worker or host", (filter) => app.want({ filter, offset: 0 }));
  const element = h("div", {}, bar(search, push(), pages.element), rows.element, none);
  function update(data, strip) {
    rows.update(data.rows, { total: data.total, offset: data.offset });
    const more = data.all > data.shown ? `, of ${count(data.all)} in the cluster` : "";
    pages.update(data.offset, data.rows.length, data.total, more);
    rows.element.hidden = !data.total;
    fill(none, data.total ? null : search.value ? muted("No worker matches.") : nothing(strip.workers));
  }
  return { element, update, args: { limit: 50 } };
}

function nothing(workers) {
  if (workers) return muted("Agents report their processes while a page shows them. The first report takes a moment.");
  return empty("No workers are connected, so there are no processes.", "scaler_cluster SCHEDULER_ADDRESS -n 4");
}
processors.title = "Processors";
