// @ts-check
/** One connection of this tab: it proves that the page is live, or says since when it is not. */

const BEAT_MS = 10000;

export class Live {
  /** @param {string} version of the server that this page is from @param {(message: any) => void} hear @param {() => void} returned */
  constructor(version, hear, returned) {
    this.version = version;
    this.isOld = false;
    this.hear = hear;
    this.returned = returned;
    this.heardAt = Date.now();
    this.isOpen = false;
    this.wasLost = false;
    this.pause = 500;
    /** @type {WebSocket | null} */
    this.socket = null;
    /** @type {Map<string, any>} what is asked of each new connection */
    this.wishes = new Map();
    this.connect();
    setInterval(() => this.show(), 1000);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return;
      if (this.isOpen) this.send({ type: "ping" });
      else this.connect();
      this.returned();
    });
  }

  connect() {
    if (this.socket && this.socket.readyState < 2) return;
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/stream`);
    this.socket = socket;
    socket.onopen = () => {
      this.isOpen = true;
      this.pause = 500;
      for (const wish of this.wishes.values()) this.send(wish());
    };
    socket.onmessage = (event) => {
      this.heardAt = Date.now();
      if (this.wasLost) {
        this.wasLost = false;
        this.returned();
      }
      const message = JSON.parse(event.data);
      if (message.type === "beat") this.isOld = message.version !== this.version;
      this.show();
      this.hear(message);
    };
    socket.onclose = () => {
      this.isOpen = false;
      if (this.socket !== socket) return;
      setTimeout(() => this.connect(), this.pause);
      this.pause = Math.min(10000, this.pause * 2);
      this.show();
    };
  }

  /** @param {any} message */
  send(message) {
    if (this.socket && this.socket.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  /** Ask now, and again after each break. @param {string} name @param {(() => any) | null} wish */
  ask(name, wish) {
    if (wish) this.wishes.set(name, wish);
    else this.wishes.delete(name);
    this.send(wish ? wish() : { type: name });
  }

  show() {
    const late = Date.now() - this.heardAt;
    const isLost = late > 2 * BEAT_MS + 2000 || (!this.isOpen && late > 3000);
    this.wasLost ||= isLost;
    const el = document.getElementById("live");
    if (!el) return;
    el.hidden = !isLost;
    const s = Math.floor(late / 1000);
    if (this.isOld && !isLost) {
      el.hidden = false;
      el.textContent = "This page is of another version than the server: reload it.";
    }
    if (isLost) el.textContent = `not live since ${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}, retrying`;
  }
}
