// For `node --import`: the conformance tests name `globSync` of "fs", which is there since Node 22.
// They use it to rate SDKs, never to run a scenario, so with Node 20 it may be missing.
import { register } from "node:module";

const resolve = `export async function resolve(name, context, next) {
  if (name === "fs" && context.parentURL?.includes("/conformance/")) {
    const url = "data:text/javascript,export * from 'node:fs'; export const globSync = undefined;";
    return { url, shortCircuit: true };
  }
  return next(name, context);
}`;

register(`data:text/javascript,${encodeURIComponent(resolve)}`);
