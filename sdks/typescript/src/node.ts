// A tool server as a request listener of Node's `http`, which is also a handler of Express.

import { RunwardError } from "./errors.js";
import type { ToolServer } from "./tools.js";

/** The parts of `http.IncomingMessage` that are used. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  method?: string | undefined;
  headers: Record<string, string | string[] | undefined>;
  /** The body, if a parser of Express has read it. */
  body?: unknown;
}

/** The parts of `http.ServerResponse` that are used. */
export interface NodeResponse {
  writeHead: (status: number, headers: Record<string, string>) => unknown;
  end: (body: Uint8Array) => unknown;
}

/**
 * Return a listener for `http.createServer`, or a handler for `app.post` of Express. With Express it
 * must come before `express.json()`, or after `express.raw()`, because the signature is that of the
 * bytes of the body.
 */
export function nodeHandler(server: ToolServer) {
  return async (request: NodeRequest, response: NodeResponse): Promise<void> => {
    const answer = await handle(server, request);
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(new Uint8Array(await answer.arrayBuffer()));
  };
}

async function handle(server: ToolServer, request: NodeRequest): Promise<Response> {
  try {
    return await server.fetch(toRequest(request));
  } catch (error) {
    console.error(error);
    return Response.json({ message: "The request cannot be handled." }, { status: 500 });
  }
}

function toRequest(request: NodeRequest): Request {
  const method = request.method ?? "GET";
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined) headers.set(name, [value].flat().join(", "));
  }
  const init: RequestInit & { duplex?: "half" } = { method, headers };
  if (method !== "GET" && method !== "HEAD") {
    init.body = toBody(request);
    init.duplex = "half";
  }
  return new Request("http://localhost/", init);
}

function toBody(request: NodeRequest): BodyInit {
  if (request.body instanceof Uint8Array) return request.body as Uint8Array<ArrayBuffer>;
  if (request.body !== undefined) {
    throw new RunwardError("The body was parsed before. Put this handler before express.json().");
  }
  const chunks = request[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { done, value } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(new Uint8Array(value));
    },
  });
}
