// OpenAI's own Node SDK, unmodified, with Runward behind it. Node 20 or newer.
//
//     npm install openai
//     RUNWARD_KEY=rw_… node examples/responses/node_client.mjs
//
// The tool `refund` must be registered and need approval above 100 (`make run` does that). The model
// is `offline:rules`, which calls what a text says as `name(a=1)`; an agent's name works as well.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package, from where this is run or from OPENAI_PACKAGES.
const packages = createRequire(pathToFileURL(`${process.env.OPENAI_PACKAGES ?? process.cwd()}/x.js`));
const OpenAI = packages("openai");

const model = "offline:rules";
const refund = { type: "mcp", server_label: "runward", allowed_tools: ["refund"] };
const weather = {
  type: "function",
  name: "get_weather",
  strict: false,
  parameters: {
    type: "object",
    properties: { location: { type: "string" } },
    required: ["location"],
  },
};

const client = new OpenAI({
  baseURL: `${process.env.RUNWARD_URL ?? "http://127.0.0.1:8080"}/v1`,
  apiKey: process.env.RUNWARD_KEY,
});

// Create a response, which is a run, and continue it with a second one.
async function create() {
  const first = await client.responses.create({ model, input: "My name is Alice." });
  const second = await client.responses.create({
    model,
    input: "Who am I?",
    previous_response_id: first.id,
  });
  assert(second.output_text.includes("Who am I?"));
  return `create: ${second.status}`;
}

// Stream the text of a response.
async function stream() {
  let shown = "";
  const events = client.responses.stream({ model, input: "Hello." });
  for await (const event of events)
    if (event.type === "response.output_text.delta") shown += event.delta;
  assert.equal(shown, (await events.finalResponse()).output_text);
  return "stream: the pieces are the text";
}

// Run a function of this client that the model calls, and continue with its output.
async function runAFunction() {
  const input = 'get_weather(location="Rome")';
  const first = await client.responses.create({ model, input, tools: [weather] });
  const [call] = first.output;
  assert.equal(call.type, "function_call");
  const output = `sunny in ${JSON.parse(call.arguments).location}`;
  const second = await client.responses.create({
    model,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output }],
  });
  assert(second.output_text.includes("sunny in Rome"));
  return `function: ${second.output_text}`;
}

// Approve a call. The response ends with the approval request, and the next has the answer.
async function approve() {
  const input = 'refund(order="A-1018", amount=500)';
  const first = await client.responses.create({ model, input, tools: [refund] });
  const [question] = first.output;
  assert.equal(question.type, "mcp_approval_request");
  const second = await client.responses.create({
    model,
    previous_response_id: first.id,
    input: [{ type: "mcp_approval_response", approval_request_id: question.id, approve: true }],
  });
  const [paid] = second.output;
  assert.equal(paid.approval_request_id, question.id);
  return `approve: ${question.name} ${paid.status}`;
}

// Disconnect from a background response, which continues, and read the rest later.
async function cutAndResume() {
  const seen = [];
  const events = await client.responses.create({
    model,
    input: 'refund(order="A-1017", amount=50)',
    tools: [refund],
    background: true,
    stream: true,
  });
  for await (const event of events) {
    seen.push(event);
    if (event.type === "response.in_progress") break;
  }
  const { id } = seen[0].response;
  const starting_after = seen.at(-1).sequence_number;
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after }))
    seen.push(event);
  const pieces = seen.filter((event) => event.type === "response.output_text.delta");
  const ended = await client.responses.retrieve(id);
  assert.equal(pieces.map((event) => event.delta).join(""), ended.output_text);
  assert.deepEqual(seen.at(-1).response.output, ended.output);
  return `resume: ${seen.at(-1).type}`;
}

// Cancel a response that waits for this client.
async function cancel() {
  const input = 'get_weather(location="Oslo")';
  const waiting = await client.responses.create({ model, input, tools: [weather], background: true });
  await client.responses.cancel(waiting.id);
  const ended = await client.responses.cancel(waiting.id);
  assert(["cancelled", "completed"].includes(ended.status)); // where it had asked us already
  return "cancel: the run has ended";
}

// Cause errors, which the SDK throws as its own types.
async function fail() {
  try {
    await client.responses.create({ model: "nobody", input: "Hello." });
  } catch (error) {
    assert(error instanceof OpenAI.NotFoundError);
    return `error: ${error.code}`;
  }
  throw new Error("there is an agent called nobody");
}

for (const step of [create, stream, runAFunction, approve, cutAndResume, cancel, fail])
  console.log(await step());
