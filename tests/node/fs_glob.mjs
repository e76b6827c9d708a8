// The conformance suite names `globSync` of `fs` when it is loaded, which Node.js has from 22 on, and
// uses it for another of its commands. With `--import` in front of it, it also runs on Node.js 20.
import * as fs from "node:fs";
import { register } from "node:module";

const patched = `export * from "node:fs"; export { default } from "node:fs";
export const globSync = () => { throw new Error("not in this version of Node.js"); };`;
const url = "data:text/javascript," + encodeURIComponent(patched);
const hooks = `export async function resolve(specifier, context, next) {
  return specifier === "fs" ? { url: ${JSON.stringify(url)}, shortCircuit: true } : next(specifier, context);
}`;
if (!("globSync" in fs)) register("data:text/javascript," + encodeURIComponent(hooks));
