// npm ci && npm run build: what is committed in built/, from the sources beside this file and the kernels in data/wgsl. Readers need no node.
import { build } from "esbuild";

const common = { bundle: true, minify: true, charset: "utf8", target: "es2022", legalComments: "none", loader: { ".wgsl": "text", ".woff2": "dataurl" } };
await build({ ...common, entryPoints: ["scene.js"], format: "iife", globalName: "figures", outfile: "built/scene.bundle.js" });
await build({ ...common, entryPoints: ["own.js"], format: "iife", globalName: "own", outfile: "built/own.bundle.js" });
await build({ ...common, entryPoints: ["widget.js"], format: "esm", outfile: "built/widget.bundle.js" });
await build({ ...common, entryPoints: ["scene.css"], outfile: "built/scene.css" });
