// The requests that all programs in this folder send, and the lines that they print.
//
// A program prints one JSON list for each check: the API, the model, the name of the check, and the
// client's result. tests/e2e/test_tested_clients.py compares these lines.

export const base = `${process.env.RUNWARD_URL}/v1`;
export const key = process.env.RUNWARD_KEY;
export const models = ["offline:rules", "clerk"]; // the second is a registered agent
export const cashier = "cashier"; // an agent with the tool `refund`, which requires approval
export const hello = "Hello.";
export const ask = 'get_weather(city="Rome")';
export const wish = "Refund 50.";
export const refund = "refund(amount=500)";
export const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

export const weather = ({ city }) => `sunny in ${city}`;

export const report = (...line) => console.log(JSON.stringify(line));

export async function joined(pieces) {
  const texts = [];
  for await (const piece of pieces) texts.push(piece);
  return texts.join("");
}
