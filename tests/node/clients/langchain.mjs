// LangChain for JavaScript, with both APIs of OpenAI.

import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";

import { ask, base, hello, joined, key, models, report, weather, wish } from "./shared.mjs";

const getWeather = tool(weather, {
  name: "get_weather",
  description: "Returns the weather of a city.",
  schema: z.object({ city: z.string() }),
});
const Refund = z.object({ amount: z.number().int() });

async function* texts(chunks) {
  for await (const chunk of chunks) yield chunk.text;
}

for (const api of ["chat", "responses"])
  for (const name of models) {
    const model = new ChatOpenAI({
      model: name,
      apiKey: key,
      configuration: { baseURL: base },
      useResponsesApi: api === "responses",
    });
    report(api, name, "text", (await model.invoke(hello)).text);
    report(api, name, "stream", await joined(texts(await model.stream(hello))));
    const able = model.bindTools([getWeather]);
    const messages = [new HumanMessage(ask)];
    const answer = await able.invoke(messages);
    messages.push(answer, await getWeather.invoke(answer.tool_calls[0]));
    report(api, name, "function", (await able.invoke(messages)).text);
    report(api, name, "output", await model.withStructuredOutput(Refund).invoke(wish));
  }
