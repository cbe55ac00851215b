// Numbers as text. An unknown value is "-", never 0.

export const unknown = "-";

export function count(n) {
  if (n === null || n === undefined) return unknown;
  return n >= 1e7 ? `${(n / 1e6).toFixed(n < 1e8 ? 1 : 0)}M` : Math.round(n).toLocaleString("en");
}

/** A short form, such as 2.4M. */
export function short(n) {
  return n >= 1e6 ? `${(n / 1e6).toFixed(n < 1e7 ? 2 : 1)}M` : count(n);
}

export function rate(n) {
  if (n === null || n === undefined) return unknown;
  return n > 0 && n < 9.95 ? n.toFixed(1) : count(n);
}

export function bytes(n) {
  if (!n) return unknown;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (n >= 1024 && unit < 5) (n /= 1024), unit++;
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

export function seconds(s) {
  if (s === null || s === undefined) return unknown;
  if (s < 0.001) return `${Math.round(s * 1e6)} us`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${Math.floor(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  return `${Math.floor(s / 86400)} d`;
}

export function percent(share) {
  return share === null || share === undefined ? unknown : `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** A local time from seconds since 1970. */
export function clock(at, withDate = false) {
  if (!at) return unknown;
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB");
  const isToday = date.toDateString() === new Date().toDateString();
  return withDate && !isToday ? `${date.toISOString().slice(5, 10)} ${time}` : time;
}

export function ago(s) {
  return s < 1 ? "now" : `${seconds(Math.floor(s))} ago`;
}
