// The page's other thread: Python, kavka's simulator, and nothing else. It does what the page asks, one message at a time.
import { loadPyodide } from "./pyodide/pyodide.mjs";

let call;

async function start() {
  const tell = (stage, share) => postMessage({ stage, share });
  tell("Loading Python", 0.1);
  const [python, archive] = await Promise.all([
    loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href }),
    fetch(new URL("./kavka.zip", import.meta.url)).then(answer => {
      if (!answer.ok) throw new Error(`kavka.zip: ${answer.status}`);
      return answer.arrayBuffer();
    }),
  ]);
  tell("Loading kavka", 0.6);
  python.FS.writeFile("/kavka.zip", new Uint8Array(archive));
  python.runPython("import sys; sys.path.insert(0, '/kavka.zip'); from kavka_playground.bridge import Bridge; bridge = Bridge()");
  call = python.globals.get("bridge").call;
  tell("Ready", 1);
}

const started = start();
started.catch(failure => postMessage({ failed: String(failure) }));

onmessage = async ({ data }) => {
  try {
    await started;
    postMessage({ id: data.id, answer: call(JSON.stringify(data.message)) });
  } catch (failure) {
    postMessage({ id: data.id, failed: String(failure) });
  }
};
