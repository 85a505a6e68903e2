// A lesson: each part has its own run, or two side by side that get the same clicks. A goal is reached when the trace of
// the reader's run proves its claim; the proof is asked for after whatever happens.

import { Board } from "./board.js";
import { element } from "./dom.js";
import { Engine } from "./engine.js";
import { Run } from "./run.js";
import { say } from "./words.js";

const lesson = document.querySelector("main").dataset.lesson;
let engine = null, current = null;

function ready(note) {
  engine ??= new Engine((text, share) => { note.textContent = share < 1 ? `${say(text)} …` : ""; });
  return engine.ready;
}

class Part {
  constructor(section) {
    this.section = section;
    this.id = section.dataset.part;
    this.boards = JSON.parse(section.dataset.boards);
    this.note = section.querySelector(".note");
    this.room = section.querySelector(".boards");
    this.button = section.querySelector(".start");
    this.button.addEventListener("click", () => this.start().catch(failure => { this.note.textContent = say("The run could not be started: {why}", { why: failure.message }); }));
  }

  async start() {
    current?.leave();
    current = this;
    this.button.disabled = true;
    for (const goal of this.section.querySelectorAll("[data-goal]")) this.#show(goal, null);
    await ready(this.note);
    if (current !== this) return;
    this.note.textContent = say("Starting the brokers …");
    const closely = "closely" in this.section.dataset;
    this.runs = this.boards.map((_, index) => new Run(engine, `${this.id}-${index}`, { keepRoutine: closely }));
    this.runs[0].others = this.runs.slice(1);
    const rooms = this.boards.map(() => element("div", { class: "board" }));
    this.views = this.runs.map((run, index) => new Board(rooms[index], run, { title: this.boards[index].title, brief: this.boards.length > 1 }));
    this.views[0].closely = closely;
    for (const [index, board] of this.boards.entries()) await this.runs[index].open(board.choices, board.clicks, board.at_ms);
    this.room.classList.toggle("pair", this.boards.length > 1);
    this.room.replaceChildren(this.#sharedButtons(), ...rooms);
    for (const run of this.runs) run.addEventListener("change", () => this.#ask());
    this.views.forEach(view => view.draw());
    this.note.textContent = "";
    this.button.disabled = false;
    this.button.textContent = this.button.dataset.again;
    document.body.dataset.ready = this.id;
  }

  // What is done on the first board is done on the second, too: both are seen to get the same.
  #sharedButtons() {
    const buttons = JSON.parse(this.section.dataset.buttons);
    return element("div", { class: "actions shared" }, ...buttons.map(([label, what, target]) =>
      element("button", { type: "button", "data-action": what, "data-target": target, onclick: () => this.runs[0].click(what, target) }, label)));
  }

  leave() {
    this.views?.forEach(view => view.leave());
    this.room.replaceChildren();
    this.room.classList.remove("pair");
    this.button.disabled = false;
    this.runs = this.views = undefined;
    delete document.body.dataset.ready;
  }

  async #ask() {
    if (this.asking) { this.again = true; return; }
    this.asking = true;
    do {
      this.again = false;
      const runs = this.runs;
      if (!runs || !runs.every(run => run.isLatest)) break;
      const found = await engine.call("goals", { lesson, part: this.id, runs: runs.map(run => run.name) });
      if (this.runs !== runs) break;
      for (const [id, proof] of Object.entries(found)) {
        const goal = this.section.querySelector(`[data-goal="${id}"]`);
        if (proof && !goal.classList.contains("reached")) this.#show(goal, proof);
      }
      await new Promise(done => setTimeout(done, 150));
    } while (this.again);
    this.asking = false;
  }

  #show(goal, proof) {
    goal.classList.toggle("reached", Boolean(proof));
    goal.dataset.events = proof ? proof.events.join(" ") : "";
    goal.querySelector(".proof").textContent = proof ? proof.text : "";
  }
}

const parts = [...document.querySelectorAll("[data-part]")].map(section => new Part(section));
globalThis.kavka = { parts, get runs() { return current?.runs; } };
