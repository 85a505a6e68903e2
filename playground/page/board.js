// Draws one run: the map of the cluster, its logs, what was decided and told; and takes the clicks on it.

import { drawn, element, redraw } from "./dom.js";
import { seconds } from "./run.js";
import { say } from "./words.js";

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
      controls: element("div", { class: "controls", role: "group", "aria-label": title ? say("Time of {title}", { title }) : say("Time") }),
      map: element("div", { class: "map" }),
      logs: element("div", { class: "logs" }),
      clients: element("section", { class: "card clients", "aria-label": say("Clients") }),
      feed: element("section", { class: "card feed", "aria-label": say("What happened") }),
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
    this.playButton = button("▶", "play", say("Play"), () => this.toggle());
    this.back = button("◂", "back", say("Step back"), () => { this.stop(); this.run.stepBack(this.closely); });
    this.next = button("▸", "next", say("Step"), () => { this.stop(); this.run.step(this.closely); });
    this.slider = element("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": say("Moment"), oninput: () => { this.stop(); this.run.show(Number(this.slider.value)); } });
    this.clock = element("output", { class: "clock" });
    this.pace = element("select", { "aria-label": say("Speed"), onchange: () => { this.speed = Number(this.pace.value); } },
      ...SPEEDS.map(([label, value]) => element("option", { value, selected: value === 1 }, label)));
    this.parts.controls.append(this.back, this.playButton, this.next, this.slider, this.clock, this.pace);
  }

  toggle() { this.playing ? this.stop() : this.play(); }

  stop() {
    this.playing = false;
    this.playButton.textContent = "▶";
    this.playButton.title = say("Play");
    this.playButton.setAttribute("aria-label", say("Play"));
  }

  async play() {
    if (this.playing) return;
    this.playing = true;
    this.playButton.textContent = "❚❚";
    this.playButton.title = say("Pause time");
    this.playButton.setAttribute("aria-label", say("Pause time"));
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
    this.clock.title = say("{steps} steps, {checked} checked, digest {digest}", now);
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
    const svg = drawn("svg", { viewBox: "0 0 360 262", role: "group", "aria-label": say("Map of the cluster") },
      ...links.map(([one, other]) => this.#drawLink(now, places, one, other)),
      this.#drawZooKeeper(places.get("zk")),
      ...now.brokers.map(broker => this.#drawBroker(now, broker, places.get(String(broker.id)))));
    redraw(this.parts.map, svg, this.#legend());
  }

  #legend() {
    return element("p", { class: "legend" },
      element("span", {}, element("i", { class: "dot lead" }), say("leads")),
      element("span", {}, element("i", { class: "dot in" }), say("in the ISR")),
      element("span", {}, element("i", { class: "dot out" }), say("out of it")),
      element("span", {}, "★ ", say("controller")));
  }

  #drawLink(now, places, one, other) {
    const state = this.#linkState(now, one, other);
    const [[x1, y1], [x2, y2]] = [places.get(one), places.get(other)];
    const bend = one === "zk" || other === "zk" ? 0 : 26;
    const path = `M${x1} ${y1} Q${(x1 + x2) / 2} ${(y1 + y2) / 2 + bend} ${x2} ${y2}`;
    const name = other === "zk" ? say("broker {one} to ZooKeeper", { one }) : say("broker {one} to broker {other}", { one, other });
    const open = event => this.#openMenu(event, `link ${one}-${other}`, name, this.#linkActions(state, `${one}-${other}`, other !== "zk"));
    return drawn("g", { class: `link ${state}${other === "zk" ? " session" : ""}`, role: "button", tabindex: 0, "data-key": `link-${one}-${other}`, "aria-label": say("Link of {name}: {state}", { name, state: say(state) }), onclick: open, onkeydown: event => opens(event) && open(event) },
      drawn("path", { class: "hit", d: path }), drawn("path", { class: "line", d: path }),
      state === "cut" ? drawn("text", { "aria-hidden": "true", class: "scissors", x: (x1 + x2) / 2, y: (y1 + y2) / 2 + bend / 2 + 5 }, "✕") : "");
  }

  #linkActions(state, link, canBeSlow) {
    if (state === "cut") return [[say("Heal"), "heal", link]];
    const slow = !canBeSlow ? [] : state === "slow" ? [[say("Fast again"), "fast", link]] : [[say("Make slow"), "slow", link]];
    return [[say("Cut"), "cut", link], ...slow];
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
    const standing = { lead: say("leads"), in: say("in the ISR"), out: say("out of the ISR"), dead: say("dead"), none: say("no replica") }[this.#standing(now, broker)];
    return broker.state === "serving" || broker.state === "dead" ? standing : say("{state}, {standing}", { state: say(broker.state), standing });
  }

  #drawBroker(now, broker, [x, y]) {
    const name = say("broker {id}", broker);
    const open = event => this.#openMenu(event, name, name, this.#brokerActions(now, broker));
    // What the map writes beside the number is in the button's name, in words.
    return drawn("g", { class: `broker ${this.#standing(now, broker)} ${broker.state}` },
      drawn("g", { class: "press", role: "button", tabindex: 0, "data-key": `broker-${broker.id}`, "aria-label": `${name}: ${this.#said(now, broker)}${now.controller === broker.id ? say(", controller") : ""}`, onclick: open, onkeydown: event => opens(event) && open(event) },
        drawn("circle", { cx: x, cy: y, r: 31 }),
        drawn("text", { class: "number", x, y: y + (broker.state === "paused" ? 0 : 7) }, broker.id)),
      broker.state === "paused" ? drawn("text", { class: "state", x, y: y + 17 }, say("paused")) : "",
      broker.state === "starting" ? drawn("text", { class: "state", x, y: y + 20 }, say("starts")) : "",
      now.controller === broker.id ? drawn("text", { class: "star", x: x + 25, y: y - 20 }, "★") : "");
  }

  #brokerActions(now, broker) {
    const id = broker.id, others = now.brokers.filter(each => each.id !== id);
    if (broker.state === "dead") return [[say("Start"), "start", id]];
    const cutOff = others.length && others.every(each => this.#linkState(now, String(id), String(each.id)) === "cut");
    return [
      [say("Kill (kill -9)"), "kill", id],
      broker.state === "paused" ? [say("Resume"), "resume", id] : [say("Pause (a long GC)"), "pause", id],
      others.length ? (cutOff ? [say("Rejoin the others"), "rejoin", id] : [say("Cut off from brokers"), "isolate", id]) : null,
      this.#linkState(now, String(id), "zk") === "cut" ? [say("Heal link to ZooKeeper"), "heal", `${id}-zk`] : [say("Cut link to ZooKeeper"), "cut", `${id}-zk`],
      [say("End its session"), "session", id],
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
      element("p", { class: "stored" }, now.stored.leader < 0 ? element("strong", { class: "bad" }, say("No leader")) : element("strong", {}, say("Broker {leader} leads", now.stored)), leaderIsDead ? element("strong", { class: "bad" }, say(", and is dead,")) : "",
        say(" in epoch {epoch} · ISR {isr} · ", { epoch: now.stored.epoch, isr: now.stored.isr.join(", ") }), now.controller < 0 ? element("strong", { class: "bad" }, say("no controller")) : say("controller {id}, epoch {epoch}", { id: now.controller, epoch: now.stored.controller_epoch })),
      ...replicas.map(broker => this.#drawLog(now, broker, first, room)),
      element("p", { class: "hint" }, say("Each square is a record, its color the leader epoch it was written in. Hollow: not committed yet. The bar is the high watermark.")));
  }

  #drawLog(now, broker, first, room) {
    const standing = this.#standing(now, broker);
    const known = new Map(broker.cells.map(cell => [cell[0], cell]));
    const lost = new Set(now.clients.lost.map(each => String(each.number)));
    const cells = [];
    for (let offset = first; offset < first + room; offset += 1) {
      const cell = known.get(offset);
      const state = cell ? `cell epoch-${cell[1] % 6}${broker.hw >= 0 && offset >= broker.hw ? " open" : ""}${lost.has(cell[2]) ? " was-lost" : ""}` : "cell none";
      const size = cell?.[2] > 999 ? " longer" : cell?.[2] > 99 ? " long" : "";
      cells.push(element("i", { class: `${state}${size}${offset + 1 === broker.hw ? " hw" : ""}` }, cell ? cell[2] : ""));
    }
    const behind = broker.state === "dead" ? say("what it had") : say("LEO {leo} · HW {hw} · epoch {epoch}", { ...broker, hw: broker.hw < 0 ? "?" : broker.hw });
    return element("div", { class: `log ${standing} ${broker.state}`, role: "img", "aria-label": say("Log of broker {id}: {said}, {behind}", { id: broker.id, said: this.#said(now, broker), behind }) },
      element("div", { class: "log-head" }, element("b", {}, say("Broker {id}", broker)), element("span", { class: "pill" }, this.#said(now, broker)), element("span", { class: "numbers" }, behind)),
      element("div", { class: "cells" }, ...cells));
  }

  #drawClients(now) {
    const clients = now.clients;
    const action = (label, what, target) => element("button", { type: "button", "data-key": `${what}-${target}`, "data-action": what, onclick: () => this.run.click(what, target) }, label);
    redraw(this.parts.clients,
      element("h2", {}, say("What the producer was told")),
      element("p", { class: "sums" }, element("b", {}, clients.written), say(" written · "), element("b", {}, clients.failed), say(" failed · "), element("b", {}, clients.waiting), say(" open · "),
        clients.lost_count ? element("strong", { class: "bad" }, say("{lost_count} promised and lost", clients)) : say("none lost"), say(" · a reader has {read}", clients)),
      element("div", { class: "actions" }, action(say("Write a record"), "write", 1), action(say("Write 10"), "write", 10),
        clients.acks === "all" ? action("acks=1", "acks", "1") : action("acks=all", "acks", "all"),
        clients.rate ? action(say("Stop sending"), "rate", 0) : action(say("Send 1 a second"), "rate", 1),
        now.stored.leader < 0 ? action(say("Unclean election"), "unclean", "") : null),
      element("ul", { class: "told" }, ...clients.told.slice(-12).reverse().map(each => this.#drawTold(each))));
  }

  #drawTold(each) {
    const outcome = each.lost ? ["lost", say("promised at offset {offset}, and lost", each)]
      : each.told_ms < 0 ? ["open", say("no answer yet")]
      : each.error ? ["failed", each.error]
      : each.offset < 0 ? ["open", say("sent, no answer asked for")]
      : ["written", say("offset {offset} after {ms} ms", { offset: each.offset, ms: each.told_ms - each.sent_ms })];
    return element("li", { class: outcome[0] }, element("b", {}, each.number), element("span", {}, `acks=${each.acks}`), element("span", {}, outcome[1]));
  }

  #drawFeed(now) {
    const events = this.run.shownEvents.slice(-FEED).reverse();
    redraw(this.parts.feed,
      element("h2", {}, say("What happened, and why")),
      this.run.note ? element("p", { class: "note" }, this.run.note) : null,
      now.ended ? element("p", { class: "note bad" }, say("The run has ended: {why}", { why: now.ended })) : null,
      element("ol", { tabindex: 0, "data-key": "feed", "aria-label": say("Events, latest first") }, ...events.map(event => this.#drawEvent(event))));
  }

  #drawEvent(event) {
    const who = event.node.startsWith("broker-") ? say("Broker {id}", { id: event.node.slice(7) }) : event.node === "zookeeper" ? "ZooKeeper" : say(event.node[0].toUpperCase() + event.node.slice(1));
    const what = say(WORDS[event.kind] ?? event.kind);
    // A decision may be about another broker than the one that took it: "Broker 3: broker unreachable" reads as if 3 were gone.
    const told = event.why ? say("{what}, decided by {who}", { who, what: what[0].toUpperCase() + what.slice(1) }) : say("{who}: {what}", { who, what });
    return element("li", { class: event.why ? "decision" : kindClass(event.kind), "data-number": event.n },
      element("time", {}, (event.t / 1000).toFixed(3)),
      element("div", {}, element("b", {}, told), event.why || event.text ? element("span", { lang: event.english ? "en" : null }, event.why ?? event.text) : null));
  }

  #drawZnodes(now) {
    const open = this.parts.znodes.querySelector("details")?.open ?? innerWidth > 760;
    const shown = now.znodes.filter(node => node.data || node.watched.length);
    redraw(this.parts.znodes, element("details", { open }, element("summary", {}, element("h2", {}, say("ZooKeeper's nodes, and who watches them"))),
      element("ul", {}, ...shown.map(node => element("li", {},
        element("code", {}, node.path),
        node.owner > 0 ? element("span", { class: "tag" }, say("ephemeral, of broker {owner}", node)) : null,
        node.watched.length ? element("span", { class: "tag watch" }, say("watched by {brokers}", { brokers: node.watched.join(", ") })) : null,
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
    const kept = Object.entries(value).filter(([name]) => ["leader", "leader_epoch", "isr", "controller_epoch", "brokerid", "partitions", "host", "port"].includes(name));
    return kept.map(([name, each]) => `${name} ${typeof each === "object" ? JSON.stringify(each) : each}`).join(" · ") || data.slice(0, 80);
  } catch {
    return data.slice(0, 80);
  }
}
