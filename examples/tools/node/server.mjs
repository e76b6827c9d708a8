// Two tools for Runward as plain webhooks, with nothing but Node (18 or newer).
//
//     LOOKUP_ORDER_SECRET=whsec_… REFUND_SECRET=whsec_… PORT=9000 node server.mjs
//
// `POST /lookup_order` may be called freely. `POST /refund` moves money, so it is registered with
// an approval rule; a person is asked by Runward, never here. Requests without a valid signature
// are answered with 401. Each secret may be several, separated by spaces, while one is rotated.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const MAX_AGE_SECONDS = 300;
const MAX_BODY_BYTES = 1_048_576;

const orders = {
  "A-1017": { item: "Desk lamp", paid: 89, delivered: true },
  "A-1018": { item: "Standing desk", paid: 640, delivered: true },
  "A-1019": { item: "Office chair", paid: 310, delivered: false },
};
const refunds = new Map(); // call id -> the answer it got

const tools = {
  "/lookup_order": {
    secrets: (process.env.LOOKUP_ORDER_SECRET ?? "").split(" ").filter(Boolean),
    run: ({ order }) =>
      Object.hasOwn(orders, order)
        ? { order, ...orders[order] }
        : { is_error: true, error: `There is no order ${order}.` },
  },
  "/refund": {
    secrets: (process.env.REFUND_SECRET ?? "").split(" ").filter(Boolean),
    // The call's ID makes retries safe: a repeated call gets the first answer. A real shop would
    // store the answer in its database, together with the refund.
    run: (args, callId) => {
      if (!refunds.has(callId)) {
        refunds.set(callId, { refund: `R-${refunds.size + 1}`, ...args, currency: "EUR" });
      }
      return refunds.get(callId);
    },
  },
};

// Return whether the request has a valid signature (Standard Webhooks). `webhook-signature` has
// `v1,` and the base64 of an HMAC-SHA-256 over ID, timestamp and body, once per secret.
function isSigned(headers, body, secrets) {
  const sentAt = Number(headers["webhook-timestamp"]);
  if (!(Math.abs(Date.now() / 1000 - sentAt) <= MAX_AGE_SECONDS)) return false;
  const given = String(headers["webhook-signature"] ?? "")
    .split(" ")
    .filter((one) => one.startsWith("v1,"))
    .map((one) => Buffer.from(one.slice(3), "base64"));
  return secrets.some((secret) => {
    const right = createHmac("sha256", Buffer.from(secret.replace(/^whsec_/, ""), "base64"))
      .update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`)
      .update(body)
      .digest();
    return given.some((one) => one.length === right.length && timingSafeEqual(one, right));
  });
}

async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new Error("the body is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function handle(request) {
  const tool = request.method === "POST" && Object.hasOwn(tools, request.url) && tools[request.url];
  const body = await read(request);
  if (!tool) return [404, { error: "no such tool" }];
  if (!isSigned(request.headers, body, tool.secrets)) {
    console.log(`${request.url} refused: the signature is not valid`);
    return [401, { error: "the signature is not valid" }];
  }
  const call = JSON.parse(body);
  if (call.type !== "tool_call") return [200, {}]; // a notice, such as a cancelled call
  const result = tool.run(call.arguments, request.headers["webhook-id"]);
  console.log(`${request.url} ${JSON.stringify(call.arguments)} -> ${JSON.stringify(result)}`);
  return [200, result];
}

const server = createServer(async (request, response) => {
  let status = 500;
  let value = { error: "the tool failed" };
  try {
    [status, value] = await handle(request);
  } catch (error) {
    console.log(`a request failed: ${error}`);
  }
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
});

server.listen(Number(process.env.PORT ?? 9000), "127.0.0.1", () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
