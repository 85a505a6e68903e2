// node compile.mjs PYODIDE ARCHIVE RESULT: plays a short run in Pyodide, and writes each module of the archive that it
// needed into RESULT, compiled by that very Python, without checks of a source's time.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [home, archive, result] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${home}/pyodide.mjs`));
const python = await loadPyodide();
python.FS.writeFile("/kavka.zip", readFileSync(archive));
python.runPython(`
import sys, zipfile, zipimport
sys.path.insert(0, "/kavka.zip")
from importlib._bootstrap_external import _code_to_hash_pyc
from _imp import source_hash
from kavka_playground.run import Run
from kavka_playground.choices import Choices
from kavka_playground.picture import Camera
import kavka_playground.bridge
run = Run(Choices(brokers=3)); Camera(run).take()
run.advance(4_000); run.click("kill", "1"); run.advance(12_000); run.click("start", "1"); run.advance(16_000); Camera(run).take()
with zipfile.ZipFile("/kavka.zip") as sources, zipfile.ZipFile("/compiled.zip", "w") as compiled:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith("/kavka.zip/"):
            name = file.removeprefix("/kavka.zip/")
            text = sources.read(name)
            code = compile(text, file, "exec", dont_inherit=True)
            compiled.writestr(name + "c", _code_to_hash_pyc(code, source_hash(0, text), False))
`);
writeFileSync(result, python.FS.readFile("/compiled.zip"));
