// Draws one run: the map of the cluster, its logs, what was decided and told; and takes the clicks on it.

import { drawn, element, redraw } from "./dom.js";
import { seconds } from "./run.js";

const TICK_MS = 80;
const SPEEDS = [["¼×", 0.25], ["1×", 1], ["4×", 4]];
const FEED = 60;
const WORDS = {
  killed: "was killed", paused: "stands still", resumed: "goes on", started: "starts", serves: "serves",
  "told: failed": "is told: failed", "record lost": "record lost", cut: "link cut", healed: "link healed",
};

export class Board {
  // `brief`: without what does not fit twice beside each other.
  constructor(root, run, { title = "", brief = false } = {}) {
    this.run = run;
    this.speed = 1;
    this.playing = false;
    this.closely = false;
    this.menu = null;
    this.left = new AbortController();
    this.parts = {
      controls: element("div", { class: "controls", role: "group", "aria-label": title ? `Time of ${title}` : "Time" }),
      map: element("div", { class: "map" }),
      logs: element("div", { class: "logs" }),
      clients: element("section", { class: "card clients", "aria-label": "Clients" }),
      feed: element("section", { class: "card feed", "aria-label": "What happened" }),
      znodes: element("section", { class: "card znodes", "aria-label": "ZooKeeper" }),
    };
    const { controls, map, logs, clients, feed, znodes } = this.parts;
    root.replaceChildren(
      ...(title ? [element("h3", { class: "board-title" }, title)] : []),
      controls,
      element("div", { class: "stage" }, map, logs),
      element("div", { class: "cards" }, feed, element("div", { class: "column" }, clients, brief ? "" : znodes)),
    );
    this.#makeControls();
    const signal = this.left.signal;
    run.addEventListener("change", () => this.draw(), { signal });
    addEventListener("resize", () => run.now && this.draw(), { signal });
    document.addEventListener("keydown", event => event.key === "Escape" && this.#closeMenu(true), { signal });
    document.addEventListener("pointerdown", event => this.menu && !this.menu.contains(event.target) && this.#closeMenu(), { signal });
  }

  // Another run takes its place.
  leave() {
    this.stop();
    this.#closeMenu();
    this.left.abort();
  }

  // -- time

  #makeControls() {
    const button = (label, key, title, action) => element("button", { type: "button", "data-key": key, title, "aria-label": title, onclick: action }, label);
    this.playButton = button("▶", "play", "Play", () => this.toggle());
    this.back = button("◂", "back", "Step back", () => { this.stop(); this.run.stepBack(this.closely); });
    this.next = button("▸", "next", "Step", () => { this.stop(); this.run.step(this.closely); });
    this.slider = element("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Moment", oninput: () => { this.stop(); this.run.show(Number(this.slider.value)); } });
    this.clock = element("output", { class: "clock" });
    this.pace = element("select", { "aria-label": "Speed", onchange: () => { this.speed = Number(this.pace.value); } },
      ...SPEEDS.map(([label, value]) => element("option", { value, selected: value === 1 }, label)));
    this.parts.controls.append(this.back, this.playButton, this.next, this.slider, this.clock, this.pace);
  }

  toggle() { this.playing ? this.stop() : this.play(); }

  stop() {
    this.playing = false;
    this.playButton.textContent = "▶";
    this.playButton.title = "Play";
    this.playButton.setAttribute("aria-label", "Play");
  }

  async play() {
    if (this.playing) return;
    this.playing = true;
    this.playButton.textContent = "❚❚";
    this.playButton.title = "Pause time";
    this.playButton.setAttribute("aria-label", "Pause time");
    while (this.playing && !this.run.now.ended) {
      const began = performance.now();
      await this.run.advance(Math.round(TICK_MS * this.speed));
      await new Promise(done => setTimeout(done, Math.max(4, TICK_MS - (performance.now() - began))));
    }
    this.stop();
  }

  // -- drawing

  draw() {
    const now = this.run.now;
    if (!now) return;
    this.slider.max = this.run.moments.length - 1;
    this.slider.value = this.run.at;
    this.clock.textContent = seconds(now.at_ms);
    this.clock.classList.toggle("past", !this.run.isLatest);
    this.clock.title = `${now.steps} steps, ${now.checked} checked, digest ${now.digest}`;
    this.#drawMap(now);
    this.#drawLogs(now);
    this.#drawClients(now);
    this.#drawFeed(now);
    this.#drawZnodes(now);
  }

  #linkState(now, one, other) {
    const found = now.links.find(link => (link[0] === one && link[1] === other) || (link[0] === other && link[1] === one));
    return found ? found[2] : "whole";
  }

  #drawMap(now) {
    const count = now.brokers.length;
    const places = new Map([["zk", [180, 34]]]);
    now.brokers.forEach((broker, index) => {
      const angle = count === 1 ? Math.PI / 2 : Math.PI * (0.06 + 0.88 * (1 - index / (count - 1)));
      places.set(String(broker.id), [180 + 138 * Math.cos(angle), 112 + 106 * Math.sin(angle)]);
    });
    const links = [], seen = [...places.keys()];
    seen.forEach((one, index) => seen.slice(index + 1).forEach(other => links.push(one === "zk" ? [other, one] : [one, other])));
    const svg = drawn("svg", { viewBox: "0 0 360 262", role: "group", "aria-label": "Map of the cluster" },
      ...links.map(([one, other]) => this.#drawLink(now, places, one, other)),
      this.#drawZooKeeper(places.get("zk")),
      ...now.brokers.map(broker => this.#drawBroker(now, broker, places.get(String(broker.id)))));
    redraw(this.parts.map, svg, this.#legend());
  }

  #legend() {
    return element("p", { class: "legend" },
      element("span", {}, element("i", { class: "dot lead" }), "leads"),
      element("span", {}, element("i", { class: "dot in" }), "in the ISR"),
      element("span", {}, element("i", { class: "dot out" }), "out of it"),
      element("span", {}, "★ controller"));
  }

  #drawLink(now, places, one, other) {
    const state = this.#linkState(now, one, other);
    const [[x1, y1], [x2, y2]] = [places.get(one), places.get(other)];
    const bend = one === "zk" || other === "zk" ? 0 : 26;
    const path = `M${x1} ${y1} Q${(x1 + x2) / 2} ${(y1 + y2) / 2 + bend} ${x2} ${y2}`;
    const name = other === "zk" ? `broker ${one} to ZooKeeper` : `broker ${one} to broker ${other}`;
    const open = event => this.#openMenu(event, `link ${one}-${other}`, name, this.#linkActions(state, `${one}-${other}`, other !== "zk"));
    return drawn("g", { class: `link ${state}${other === "zk" ? " session" : ""}`, role: "button", tabindex: 0, "data-key": `link-${one}-${other}`, "aria-label": `Link of ${name}: ${state}`, onclick: open, onkeydown: event => opens(event) && open(event) },
      drawn("path", { class: "hit", d: path }), drawn("path", { class: "line", d: path }),
      state === "cut" ? drawn("text", { "aria-hidden": "true", class: "scissors", x: (x1 + x2) / 2, y: (y1 + y2) / 2 + bend / 2 + 5 }, "✕") : "");
  }

  #linkActions(state, link, canBeSlow) {
    if (state === "cut") return [["Heal", "heal", link]];
    const slow = !canBeSlow ? [] : state === "slow" ? [["Fast again", "fast", link]] : [["Make slow", "slow", link]];
    return [["Cut", "cut", link], ...slow];
  }

  #drawZooKeeper([x, y]) {
    return drawn("g", { class: "zookeeper" },
      drawn("rect", { x: x - 52, y: y - 19, width: 104, height: 38, rx: 19 }),
      drawn("text", { x, y: y + 5 }, "ZooKeeper"));
  }

  #standing(now, broker) {
    if (broker.state === "dead") return "dead";
    if (!now.stored.replicas.includes(broker.id)) return "none";
    if (now.stored.leader === broker.id) return "lead";
    return now.stored.isr.includes(broker.id) ? "in" : "out";
  }

  #said(now, broker) {
    const standing = { lead: "leads", in: "in the ISR", out: "out of the ISR", dead: "dead", none: "no replica" }[this.#standing(now, broker)];
    return broker.state === "serving" || broker.state === "dead" ? standing : `${broker.state}, ${standing}`;
  }

  #drawBroker(now, broker, [x, y]) {
    const name = `broker ${broker.id}`;
    const open = event => this.#openMenu(event, name, name, this.#brokerActions(now, broker));
    // What the map writes beside the number is in the button's name, in words.
    return drawn("g", { class: `broker ${this.#standing(now, broker)} ${broker.state}` },
      drawn("g", { class: "press", role: "button", tabindex: 0, "data-key": `broker-${broker.id}`, "aria-label": `${name}: ${this.#said(now, broker)}${now.controller === broker.id ? ", controller" : ""}`, onclick: open, onkeydown: event => opens(event) && open(event) },
        drawn("circle", { cx: x, cy: y, r: 31 }),
        drawn("text", { class: "number", x, y: y + (broker.state === "paused" ? 0 : 7) }, broker.id)),
      broker.state === "paused" ? drawn("text", { class: "state", x, y: y + 17 }, "paused") : "",
      broker.state === "starting" ? drawn("text", { class: "state", x, y: y + 20 }, "starts") : "",
      now.controller === broker.id ? drawn("text", { class: "star", x: x + 25, y: y - 20 }, "★") : "");
  }

  #brokerActions(now, broker) {
    const id = broker.id, others = now.brokers.filter(each => each.id !== id);
    if (broker.state === "dead") return [["Start", "start", id]];
    const cutOff = others.length && others.every(each => this.#linkState(now, String(id), String(each.id)) === "cut");
    return [
      ["Kill (kill -9)", "kill", id],
      broker.state === "paused" ? ["Resume", "resume", id] : ["Pause (a long GC)", "pause", id],
      others.length ? (cutOff ? ["Rejoin the others", "rejoin", id] : ["Cut off from brokers", "isolate", id]) : null,
      this.#linkState(now, String(id), "zk") === "cut" ? ["Heal link to ZooKeeper", "heal", `${id}-zk`] : ["Cut link to ZooKeeper", "cut", `${id}-zk`],
      ["End its session", "session", id],
    ].filter(Boolean);
  }

  #openMenu(event, key, title, actions) {
    event.preventDefault();
    this.#closeMenu();
    const origin = event.currentTarget;
    this.opener = origin.dataset.key;
    this.menu = element("div", { class: "menu", role: "dialog", "aria-label": title },
      element("p", {}, title[0].toUpperCase() + title.slice(1)),
      ...actions.map(([label, what, target]) => element("button", { type: "button", "data-action": what, onclick: () => { this.#closeMenu(true); this.run.click(what, target); } }, label)));
    document.body.append(this.menu);
    const place = origin.getBoundingClientRect(), size = this.menu.getBoundingClientRect();
    const x = Math.min(Math.max(8, place.left + place.width / 2 - size.width / 2), innerWidth - size.width - 8);
    const under = place.top + place.height / 2 + 14;
    const y = under + size.height > innerHeight - 8 ? Math.max(8, place.top + place.height / 2 - size.height - 14) : under;
    this.menu.style.transform = `translate(${x + scrollX}px, ${y + scrollY}px)`;
    this.menu.querySelector("button").focus({ preventScroll: true });
  }

  #closeMenu(back = false) {
    if (!this.menu) return;
    this.menu.remove();
    this.menu = null;
    if (back) this.parts.map.querySelector(`[data-key="${this.opener}"]`)?.focus({ preventScroll: true });
  }

  #drawLogs(now) {
    const replicas = now.brokers.filter(broker => now.stored.replicas.includes(broker.id));
    const end = Math.max(...replicas.map(broker => broker.leo), 0);
    const room = Math.max(6, Math.floor((this.parts.logs.clientWidth - 24) / 30));
    const first = Math.max(0, end - room + 1);
    const leaderIsDead = now.brokers.some(broker => broker.id === now.stored.leader && broker.state === "dead");
    redraw(this.parts.logs,
      element("p", { class: "stored" }, now.stored.leader < 0 ? element("strong", { class: "bad" }, "No leader") : element("strong", {}, `Broker ${now.stored.leader} leads`), leaderIsDead ? element("strong", { class: "bad" }, ", and is dead,") : "",
        ` in epoch ${now.stored.epoch} · ISR ${now.stored.isr.join(", ")} · `, now.controller < 0 ? element("strong", { class: "bad" }, "no controller") : `controller ${now.controller}, epoch ${now.stored.controller_epoch}`),
      ...replicas.map(broker => this.#drawLog(now, broker, first, room)),
      element("p", { class: "hint" }, "Each square is a record, its color the leader epoch it was written in. Hollow: not committed yet. The bar is the high watermark."));
  }

  #drawLog(now, broker, first, room) {
    const standing = this.#standing(now, broker);
    const known = new Map(broker.cells.map(cell => [cell[0], cell]));
    const lost = new Set(now.clients.lost.map(each => String(each.number)));
    const cells = [];
    for (let offset = first; offset < first + room; offset += 1) {
      const cell = known.get(offset);
      const state = cell ? `cell epoch-${cell[1] % 6}${broker.hw >= 0 && offset >= broker.hw ? " open" : ""}${lost.has(cell[2]) ? " was-lost" : ""}` : "cell none";
      cells.push(element("i", { class: `${state}${offset + 1 === broker.hw ? " hw" : ""}` }, cell ? cell[2] : ""));
    }
    const behind = broker.state === "dead" ? "what it had" : `LEO ${broker.leo} · HW ${broker.hw < 0 ? "?" : broker.hw} · epoch ${broker.epoch}`;
    return element("div", { class: `log ${standing} ${broker.state}`, role: "img", "aria-label": `Log of broker ${broker.id}: ${this.#said(now, broker)}, ${behind}` },
      element("div", { class: "log-head" }, element("b", {}, `Broker ${broker.id}`), element("span", { class: "pill" }, this.#said(now, broker)), element("span", { class: "numbers" }, behind)),
      element("div", { class: "cells" }, ...cells));
  }

  #drawClients(now) {
    const clients = now.clients;
    const action = (label, what, target) => element("button", { type: "button", "data-key": `${what}-${target}`, "data-action": what, onclick: () => this.run.click(what, target) }, label);
    redraw(this.parts.clients,
      element("h2", {}, "What the producer was told"),
      element("p", { class: "sums" }, element("b", {}, clients.written), " written · ", element("b", {}, clients.failed), " failed · ", element("b", {}, clients.waiting), " open · ",
        clients.lost_count ? element("strong", { class: "bad" }, `${clients.lost_count} promised and lost`) : "none lost", ` · a reader has ${clients.read}`),
      element("div", { class: "actions" }, action("Write a record", "write", 1), action("Write 10", "write", 10),
        clients.acks === "all" ? action("acks=1", "acks", "1") : action("acks=all", "acks", "all"),
        clients.rate ? action("Stop sending", "rate", 0) : action("Send 1 a second", "rate", 1),
        now.stored.leader < 0 ? action("Unclean election", "unclean", "") : null),
      element("ul", { class: "told" }, ...clients.told.slice(-12).reverse().map(each => this.#drawTold(each))));
  }

  #drawTold(each) {
    const outcome = each.lost ? ["lost", `promised at offset ${each.offset}, and lost`]
      : each.told_ms < 0 ? ["open", "no answer yet"]
      : each.error ? ["failed", each.error]
      : each.offset < 0 ? ["open", "sent, no answer asked for"]
      : ["written", `offset ${each.offset} after ${each.told_ms - each.sent_ms} ms`];
    return element("li", { class: outcome[0] }, element("b", {}, each.number), element("span", {}, `acks=${each.acks}`), element("span", {}, outcome[1]));
  }

  #drawFeed(now) {
    const events = this.run.shownEvents.slice(-FEED).reverse();
    redraw(this.parts.feed,
      element("h2", {}, "What happened, and why"),
      this.run.note ? element("p", { class: "note" }, this.run.note) : null,
      now.ended ? element("p", { class: "note bad" }, `The run has ended: ${now.ended}`) : null,
      element("ol", { tabindex: 0, "data-key": "feed", "aria-label": "Events, latest first" }, ...events.map(event => this.#drawEvent(event))));
  }

  #drawEvent(event) {
    const who = event.node.startsWith("broker-") ? `Broker ${event.node.slice(7)}` : event.node === "zookeeper" ? "ZooKeeper" : event.node[0].toUpperCase() + event.node.slice(1);
    return element("li", { class: event.why ? "decision" : kindClass(event.kind), "data-number": event.n },
      element("time", {}, (event.t / 1000).toFixed(3)),
      element("div", {}, element("b", {}, `${who}: ${WORDS[event.kind] ?? event.kind}`), event.why || event.text ? element("span", {}, event.why ?? event.text) : null));
  }

  #drawZnodes(now) {
    const open = this.parts.znodes.querySelector("details")?.open ?? innerWidth > 760;
    const shown = now.znodes.filter(node => node.data || node.watched.length);
    redraw(this.parts.znodes, element("details", { open }, element("summary", {}, element("h2", {}, "ZooKeeper's nodes, and who watches them")),
      element("ul", {}, ...shown.map(node => element("li", {},
        element("code", {}, node.path),
        node.owner > 0 ? element("span", { class: "tag" }, `ephemeral, of broker ${node.owner}`) : null,
        node.watched.length ? element("span", { class: "tag watch" }, `watched by ${node.watched.join(", ")}`) : null,
        node.data ? element("span", { class: "data" }, brief(node.data)) : null)))));
  }
}

const opens = event => event.key === "Enter" || event.key === " ";

function kindClass(kind) {
  if (["killed", "paused", "cut", "session ended", "slow", "halts"].includes(kind)) return "fault";
  if (["record lost", "told: failed", "rule broken"].includes(kind)) return "loss";
  return "plain";
}

function brief(data) {
  try {
    const value = JSON.parse(data);
    if (typeof value !== "object" || value === null) return String(value);
    const kept = Object.entries(value).filter(([name]) => ["leader", "leader_epoch", "isr", "controller_epoch", "brokerid", "partitions", "host"].includes(name));
    return kept.map(([name, each]) => `${name} ${typeof each === "object" ? JSON.stringify(each) : each}`).join(" · ") || data.slice(0, 80);
  } catch {
    return data.slice(0, 80);
  }
}
