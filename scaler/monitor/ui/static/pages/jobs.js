// Jobs: the progress of each, and its first failures.

import { h, say, fill, table, pager, link, facts, empty, bar, failedCount, muted, panel } from "../dom.js";
import { bytes, clock, count, rate } from "../format.js";

function progress(row) {
  const parts = [["success", row.done], ["failed", row.failed]].map(([kind, n]) => {
    const part = h("i");
    part.style.width = `${(n / Math.max(1, row.rows)) * 100}%`;
    part.style.background = `var(--${kind})`;
    return part;
  });
  return h("span", { class: "cut" }, h("span", { class: "split", "aria-hidden": "true" }, parts), doneOf(row));
}
const doneOf = (row) => `${count(row.done)} of ${count(row.rows)}${row.all_rows_known ? "" : " so far"}`;
const rateOf = (row) => (row.rate === null ? "-" : `${rate(row.rate)}/s`);

const columns = [
  { title: "Job", cell: (row) => link("jobs", row.id, row.name) },
  { title: "State", cell: (row) => row.state },
  { title: "Done", cell: progress },
  { title: "Failed", num: true, cell: (row) => failedCount(row.failed) },
  { title: "Rate", num: true, narrow: false, cell: rateOf },
  { title: "Left", num: true, narrow: false, cell: (row) => row.left },
  { title: "On disk", num: true, narrow: false, cell: (row) => bytes(row.size) },
  { title: "Owner", narrow: false, cell: (row) => row.owner },
  { title: "Program", narrow: false, cell: (row) => row.program },
  { title: "Created", num: true, narrow: false, cell: (row) => clock(row.created, true) },
];

export default function jobs(app) {
  return app.id ? one(app) : list(app);
}
jobs.title = "Jobs";

function list(app) {
  const rows = table({ label: "Jobs", columns, key: (row) => row.id, open: (row) => app.go("jobs", row.id) });
  const pages = pager((offset) => app.want({ offset })), none = h("div");
  const element = h("div", {}, bar(pages.element), rows.element, none);
  return {
    element, args: { limit: 50 },
    update(data) {
      rows.update(data.rows, { total: data.total, offset: data.offset });
      rows.element.hidden = !data.total;
      const more = data.all > data.total ? `, ${count(data.all)} in all` : "";
      pages.update(data.offset, data.rows.length, data.total, more);
      fill(none, data.total ? null : empty("There are no jobs.", 'client.start(price, rows, name="prices")',
        "A scheduler keeps jobs if it is started with --keep FOLDER."));
    },
  };
}

const factsOf = (row) => [
  ["State", row.reason ? `${row.state}: ${row.reason}` : row.state], ["Done", doneOf(row)],
  ["Failed", count(row.failed)], ["Open", count(row.rows - row.done - row.failed)],
  ["Handed out", count(row.handed_out)], ["Running", count(row.running)], ["Rate", rateOf(row)], ["Left", row.left], ["On disk", bytes(row.size)],
  ["Function", row.function_name], ["Owner", row.owner], ["Program", row.program],
  ["Created", clock(row.created, true)], ["Changed", clock(row.changed, true)],
];

function one() {
  const about = h("div"), failures = h("pre"), more = muted(), none = h("div");
  const box = panel("Rows that have failed", failures, more);
  const element = h("div", {}, h("p", {}, h("a", { href: "#/jobs" }, "All jobs")), about, box, none);
  return {
    element, args: {},
    update({ job }) {
      about.hidden = !job;
      box.hidden = !job?.failed;
      fill(none, job ? null : muted("This job was deleted, or is not shown: the page has the latest 100 jobs."));
      if (!job) return;
      fill(about, h("h2", {}, job.name), facts(factsOf(job)));
      say(failures, job.failures.join("\n"));
      const rest = job.failed - job.failures.length;
      say(more, rest > 0 ? `And ${count(rest)} more: scaler_jobs ADDRESS show ${job.name}` : "");
    },
  };
}
