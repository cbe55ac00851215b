// Canvases that are drawn by hand, and the colours of all charts, which come from the tokens of the style sheet.

import { h } from "./dom.js";
import { clock } from "./format.js";

export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The fill of an outcome: success plain, failed hatched, canceled striped, so that they differ in grey, too. */
export function paint(context, kind) {
  const colour = token(kind === "running" ? "running-fill" : kind);
  if (kind !== "failed" && kind !== "canceled") return colour;
  const tile = new OffscreenCanvas(6, 6);
  const brush = tile.getContext("2d");
  brush.fillStyle = token("ground");
  brush.fillRect(0, 0, 6, 6);
  brush.fillStyle = brush.strokeStyle = colour;
  brush.globalAlpha = 0.35;
  brush.fillRect(0, 0, 6, 6);
  brush.globalAlpha = 1;
  brush.lineWidth = 1.5;
  brush.beginPath();
  brush.moveTo(0, 6); brush.lineTo(6, 0);
  if (kind === "failed") (brush.moveTo(0, 0), brush.lineTo(6, 6));
  brush.stroke();
  return context.createPattern(tile, "repeat");
}

export function strokeLine(context, x, y, toX, toY) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

// Charts of closed pages are removed.
const sheets = new Set();
addEventListener("prefs", () => forEachSheet((canvas) => canvas.later()));

function forEachSheet(act) {
  for (const known of sheets) {
    const canvas = known.deref();
    if (canvas) act(canvas);
    else sheets.delete(known);
  }
}

/** A canvas that keeps its size and is drawn at most once a frame. */
export function sheet(draw, label) {
  const canvas = h("canvas", { role: "img", "aria-label": label });
  forEachSheet(() => {});
  let waits = false;
  const later = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      const { clientWidth: width, clientHeight: height } = canvas;
      if (!width || !height) return;
      const scale = devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
        canvas.width = Math.round(width * scale);
        canvas.height = Math.round(height * scale);
      }
      const context = canvas.getContext("2d");
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      draw(context, width, height);
    });
  };
  new ResizeObserver(later).observe(canvas);
  canvas.later = later;
  sheets.add(new WeakRef(canvas));
  return { canvas, later };
}

const timeSteps = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

export function timeAxis(context, left, width, height, start, end) {
  const span = (end - start) * Math.max(1, 560 / width), step = timeSteps.find((each) => span / each <= 7) || 172800;
  const zone = new Date().getTimezoneOffset() * 60;
  context.fillStyle = token("ink2");
  context.textAlign = "center";
  for (let at = Math.ceil((start - zone) / step) * step + zone; at <= end; at += step) {
    const x = left + ((at - start) / (end - start)) * width;
    if (x < left + 20 || x > left + width - 20) continue;
    context.fillText(clock(at).slice(0, step < 60 ? 8 : 5), x, height - 2);
  }
}
