// The connection to the server: sends the token, requests pages, receives one frame after the other, and reconnects by
// itself.
// A frame is acknowledged when it is drawn, and only then the server sends a newer one: a slow browser skips frames.

// With reduced motion, the page acknowledges later, so that it changes in steps of some seconds.

import { secret } from "./prefs.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)"), CALM_MS = 5000;

export class Socket {
  constructor(onframe, onstate) {
    this.onframe = onframe;
    this.onstate = onstate;
    this.wish = null;
    this.number = 0;
    this.pause = 500;
    this.open();
    document.addEventListener("visibilitychange", () => this.say({ hidden: document.hidden }));
  }

  open() {
    const place = new URL("socket", location.href.split("#")[0]);
    place.protocol = place.protocol.replace("http", "ws");
    const socket = new WebSocket(place);
    this.socket = socket;
    socket.onopen = () => {
      this.pause = 500;
      this.onstate("open");
      socket.send(secret);
      this.say({ hidden: document.hidden });
      if (this.wish) this.say(this.wish);
    };
    socket.onmessage = (event) => {
      const frame = JSON.parse(event.data);
      if (frame.wish === this.number) this.onframe(frame);
      const pause = calm.matches ? CALM_MS : 0;
      requestAnimationFrame(() => setTimeout(() => this.say({ ack: frame.frame }), pause));
    };
    socket.onclose = () => {
      this.onstate("closed");
      setTimeout(() => this.open(), this.pause);
      this.pause = Math.min(5000, this.pause * 2);
    };
  }

  /** Requests a page; frames of earlier requests are dropped. */
  want(page, args) {
    this.wish = { wish: ++this.number, page, args };
    this.say(this.wish);
  }

  say(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
