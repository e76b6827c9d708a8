// OpenAI's SDK for JavaScript, with both APIs.

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import {
  ask,
  base,
  cashier,
  hello,
  joined,
  key,
  models,
  parameters,
  refund,
  report,
  weather,
  wish,
} from "./shared.mjs";

const client = new OpenAI({ baseURL: base, apiKey: key });
const Refund = z.object({ amount: z.number().int() });
const name = "get_weather";

async function* texts(chunks) {
  for await (const chunk of chunks) yield chunk.choices[0].delta.content;
}

async function* deltas(events) {
  for await (const event of events) if (event.type === "response.output_text.delta") yield event.delta;
}

async function checkChat(model) {
  const chat = client.chat.completions;
  const messages = [{ role: "user", content: hello }];
  report("chat", model, "text", (await chat.create({ model, messages })).choices[0].message.content);
  report("chat", model, "stream", await joined(texts(await chat.create({ model, messages, stream: true }))));
  const runner = chat.runTools({
    model,
    messages: [{ role: "user", content: ask }],
    tools: [{ type: "function", function: { name, parameters, parse: JSON.parse, function: weather } }],
  });
  report("chat", model, "function", await runner.finalContent());
  const typed = await chat.parse({
    model,
    messages: [{ role: "user", content: wish }],
    response_format: zodResponseFormat(Refund, "refund"),
  });
  report("chat", model, "output", typed.choices[0].message.parsed);
}

async function checkResponses(model) {
  const { responses } = client;
  report("responses", model, "text", (await responses.create({ model, input: hello })).output_text);
  report("responses", model, "stream", await joined(deltas(responses.stream({ model, input: hello }))));
  const tools = [{ type: "function", name, parameters, strict: true }];
  const first = await responses.create({ model, input: ask, tools });
  const [{ call_id, arguments: given }] = first.output;
  const second = await responses.create({
    model,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id, output: weather(JSON.parse(given)) }],
  });
  report("responses", model, "function", second.output_text);
  const text = { format: zodTextFormat(Refund, "refund") };
  report("responses", model, "output", (await responses.parse({ model, input: wish, text })).output_parsed);
}

for (const model of models) {
  await checkChat(model);
  await checkResponses(model);
}

const first = await client.responses.create({ model: cashier, input: refund });
const input = first.output.map(({ id }) => ({
  type: "mcp_approval_response",
  approval_request_id: id,
  approve: true,
}));
const second = await client.responses.create({ model: cashier, previous_response_id: first.id, input });
report("responses", cashier, "approval", second.output_text);
