// Tools as functions, and an HTTP handler that serves them as webhook tools.

import { RunwardError } from "./errors.js";
import { readSecrets, SignatureError, verifySignature } from "./signature.js";
import type { SignatureOptions } from "./signature.js";
import { Transport } from "./transport.js";
import type { Callback, JsonObject, RegisterTool, ToolCallCancellation, ToolCallRequest, ToolEnvelope } from "./types.js";

export { SignatureError, verifySignature };
export type { SignatureOptions, ToolCallCancellation, ToolCallRequest, ToolEnvelope };

/** Return this from `execute` to give the result later, with `CallbackClient`. */
export const LATER: unique symbol = Symbol("later");

/** A call, as the tool gets it. */
export interface ToolCall extends ToolCallRequest {
  /** The same for each attempt of the call, and unique everywhere: an idempotency key. */
  id: string;
}

export interface ToolOptions<Arguments> {
  name: string;
  /** What the tool does and when to use it, for the model. */
  description: string;
  /** A JSON Schema of the arguments. Runward sends no call that does not match it. */
  parameters: JsonObject;
  /** Return the result, any JSON. Throw a ToolError for an error that the model reads. */
  execute: (args: Arguments, call: ToolCall) => unknown;
  /** `envelope`: `execute` returns a ToolEnvelope, and `call.state` is the state that runs share. */
  response?: "output" | "envelope";
}

/** A tool whose `execute` returns an envelope: an output, changes of the state, and a handoff. */
export interface EnvelopeToolOptions<Arguments> extends ToolOptions<Arguments> {
  response: "envelope";
  execute: (args: Arguments, call: ToolCall) => EnvelopeResult | Promise<EnvelopeResult>;
}

type EnvelopeResult = ToolEnvelope | typeof LATER;

export interface Tool extends ToolOptions<never> {
  /** The fields with which the tool is registered: `client.tools.upsert({ ...definition, url })`. */
  definition: Required<Pick<RegisterTool, "name" | "description" | "parameters">> & Pick<RegisterTool, "response">;
}

export interface ToolServerOptions extends SignatureOptions {
  /** Called when a call is closed without its response, for example because its run was cancelled. */
  onCancelled?: (call: ToolCallCancellation) => unknown;
  /** Called with an error of a tool that is not a ToolError. The default is `console.error`. */
  onError?: (error: unknown, call: ToolCall) => unknown;
}

export interface ToolServer {
  /** Answer a request of Runward. It is a handler for Hono, Next, Deno, Bun and others. */
  fetch: (request: Request) => Promise<Response>;
}

/** An error whose message the model reads. */
export class ToolError extends RunwardError {}

/** The largest request that is read. Runward's own requests are smaller. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** Define a tool. */
export function tool<Arguments = JsonObject>(options: EnvelopeToolOptions<Arguments>): Tool;
export function tool<Arguments = JsonObject>(options: ToolOptions<Arguments> & { response?: "output" }): Tool;
export function tool<Arguments = JsonObject>(options: ToolOptions<Arguments>): Tool {
  const { name, description, parameters, response } = options;
  return { ...(options as ToolOptions<never>), definition: { name, description, parameters, ...(response && { response }) } };
}

/** Return an HTTP handler for calls of the tools. It refuses requests that are not signed. */
export function toolServer(tools: readonly Tool[], options: ToolServerOptions): ToolServer {
  readSecrets(options.secret);
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return {
    fetch: async (request) => {
      if (request.method !== "POST") return problem(405, "Send a POST request.", { Allow: "POST" });
      const body = await readBody(request);
      if (body === null) return problem(413, "The request is too large.");
      try {
        await verifySignature(request.headers, body, options);
      } catch (error) {
        if (error instanceof SignatureError) return problem(401, error.message);
        throw error;
      }
      const message = JSON.parse(new TextDecoder().decode(body)) as ToolCallRequest | ToolCallCancellation;
      if (message.type === "tool_call.cancelled") await options.onCancelled?.(message);
      if (message.type !== "tool_call") return new Response(null, { status: 204 });
      const id = request.headers.get("webhook-id") ?? "";
      return execute(byName.get(message.tool), { ...message, id }, options);
    },
  };
}

async function execute(tool: Tool | undefined, call: ToolCall, options: ToolServerOptions): Promise<Response> {
  if (tool === undefined) return problem(404, `This server has no tool ${call.tool}.`);
  try {
    const result = await tool.execute(call.arguments as never, call);
    return result === LATER ? new Response(null, { status: 202 }) : Response.json(result ?? null);
  } catch (error) {
    if (error instanceof ToolError) return Response.json({ is_error: true, error: error.message });
    (options.onError ?? console.error)(error, call);
    return problem(500, "The tool failed.");
  }
}

/** Return the body of a request, or null if it is too large. */
async function readBody(request: Request): Promise<Uint8Array | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
    size += read.value.length;
    if (size > MAX_BODY_BYTES) return reader?.cancel().then(() => null) ?? null;
    chunks.push(read.value);
  }
  return new Uint8Array(await new Blob(chunks as BlobPart[]).arrayBuffer());
}

function problem(status: number, message: string, headers: Record<string, string> = {}): Response {
  return Response.json({ message }, { status, headers });
}

/** Gives the result of a call to which the tool answered LATER. Needs no API key. */
export class CallbackClient {
  readonly #url: string;
  readonly #transport = new Transport();

  /** `url` is `call.callback.url`. */
  constructor(url: string) {
    this.#url = url;
  }

  /** Give the result, any JSON. `envelope` has the other fields, for a tool that returns envelopes. */
  complete(output: unknown, envelope: ToolEnvelope = {}): Promise<void> {
    return this.#post({ status: "completed", ...envelope, output });
  }

  /** End the call with an error that the model reads. */
  fail(message: string): Promise<void> {
    return this.#post({ status: "failed", message });
  }

  /** Report progress, between 0 and 1, to the readers of the run's events. */
  progress(progress: number, message?: string): Promise<void> {
    return this.#post({ status: "progress", progress, ...(message !== undefined && { message }) });
  }

  /**
   * Ask the client that started the run. The tool is called again with the answer: `call.input` has
   * `responses`, and `state` as it is given here.
   */
  ask(requests: unknown, state?: unknown): Promise<void> {
    return this.#post({ status: "input_required", requests, ...(state !== undefined && { state }) });
  }

  async #post(body: Callback): Promise<void> {
    await this.#transport.json({ method: "POST", url: this.#url, body });
  }
}
