// node compile.mjs PYODIDE ARCHIVE RESULT: plays a short run in Pyodide, and writes each module that it needed into RESULT,
// compiled by that very Python, without checks of a source's time: those of the archive below kavka/, those of Python's
// own library below python/. Pyodide comes with the library's sources alone.
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
library = next(each for each in sys.path if each.startswith("/lib/") and each.endswith(".zip"))
with zipfile.ZipFile("/compiled.zip", "w") as compiled:
    for place, archive in (("kavka", "/kavka.zip"), ("python", library)):
        with zipfile.ZipFile(archive) as sources:
            # Some modules have two names there.
            for file in {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}:
                if file.startswith(f"{archive}/") and file.endswith(".py"):
                    name = file.removeprefix(f"{archive}/")
                    text = sources.read(name)
                    code = compile(text, file, "exec", dont_inherit=True)
                    compiled.writestr(f"{place}/{name}c", _code_to_hash_pyc(code, source_hash(0, text), False))
`);
writeFileSync(result, python.FS.readFile("/compiled.zip"));
