// Takes rows along: fetches a view with the token, and saves or copies it.

import { secret } from "./prefs.js";

async function read(place) {
  const answer = await fetch(place, { headers: { Authorization: `Bearer ${secret}` } });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

export async function saveView(place, name) {
  const url = URL.createObjectURL(await (await read(place)).blob()), link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const readText = async (place) => (await read(place)).text();

/** Copies a text; returns whether that was possible. Away from https and this computer, browsers have no clipboard. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}
