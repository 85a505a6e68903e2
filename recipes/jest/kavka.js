// A Kafka cluster of three brokers for tests, each in a process of its own, without Docker and without a JVM.
// Copy this file. The program "kavka" must be on the PATH, or named in the variable KAVKA: pip install a checkout of it.
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");

/**
 * Resolves when the cluster serves, with:
 *   brokers       host:port of each
 *   kill(broker)  ends one with kill -9; the others go on
 *   stop()        ends the cluster in order, and deletes its data
 */
async function startKavka(settings = {}) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "kavka-"));
  const log = path.join(directory, "kavka.log");
  const words = ["up", "--brokers", "3", "--processes", "--port", "0", "--no-console", "--json"];
  words.push("--stop-with-stdin"); // The cluster ends with this process, also when it is killed.
  words.push("--data", path.join(directory, "data"));
  for (const [name, value] of Object.entries(settings)) words.push("--set", `${name}=${value}`);
  const errors = fs.openSync(log, "w");
  const child = spawn(process.env.KAVKA || "kavka", words, { stdio: ["pipe", "pipe", errors] });
  fs.closeSync(errors);
  const ended = new Promise((resolve) => child.once("close", resolve));
  const ready = await new Promise((resolve, reject) => {
    const fail = (error) => reject(new Error(`kavka did not start: ${error}\n${fs.readFileSync(log, "utf8")}`));
    child.once("error", fail);
    child.once("close", (status) => fail(`it ended with ${status}`));
    readline.createInterface({ input: child.stdout }).once("line", (line) => resolve(JSON.parse(line)));
  });
  const pids = new Map(ready.brokers.map((broker) => [broker.broker_id, broker.pid]));
  return {
    brokers: ready.bootstrap.split(","),
    kill: (broker) => process.kill(pids.get(broker), "SIGKILL"),
    stop: async () => {
      child.stdin.end();
      await ended;
      fs.rmSync(directory, { recursive: true, force: true });
    },
  };
}

module.exports = { startKavka };
