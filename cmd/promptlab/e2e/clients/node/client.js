// Drives the official Node clients as a test tells it to.
//
// Each line of standard input is one JSON object: which client (sdk), what to do
// with it (do), where (base_url, key, headers) and with which parameters. Each
// answer is one line too: what the client understood, or the error it raised.
//
// It deliberately knows nothing of what is expected: that is the test's.

import { createInterface } from "node:readline";
import Anthropic, { AnthropicError } from "@anthropic-ai/sdk";
import OpenAI, { OpenAIError } from "openai";

class WithOpenAI {
  constructor(order) {
    this.order = order;
    this.params = order.params ?? {};
    this.seen = {}; // of a stream, until it ends or fails
    this.client = new OpenAI({ baseURL: order.base_url + "/v1", apiKey: order.key, defaultHeaders: order.headers });
    this.chat = this.client.chat.completions;
  }

  async models() {
    const ids = [];
    for await (const m of this.client.models.list()) ids.push(m.id);
    return { ids };
  }

  async model() {
    return { ids: [(await this.client.models.retrieve(this.params.id)).id] };
  }

  told(c) {
    const { message: m, finish_reason: finish } = c.choices[0];
    const u = c.usage;
    return {
      id: c.id,
      model: c.model,
      text: m.content,
      refusal: m.refusal,
      finish,
      tools: (m.tool_calls ?? []).map((t) => [t.id, t.function.name, t.function.arguments]),
      usage: u && [u.prompt_tokens, u.completion_tokens, u.total_tokens, u.prompt_tokens_details.cached_tokens],
      promptlab: c.promptlab,
    };
  }

  async create() {
    const { data, response } = await this.chat.create(this.params).withResponse();
    return { ...this.told(data), headers: Object.fromEntries(response.headers) };
  }

  async shaped() {
    const c = await this.chat.parse(this.params);
    return { ...this.told(c), parsed: JSON.parse(c.choices[0].message.content) };
  }

  async stream() {
    const out = (this.seen = { text: "", pieces: 0, finish: null, usage: null, promptlab: null });
    const { data, response } = await this.chat.create({ ...this.params, stream: true }).withResponse();
    out.headers = Object.fromEntries(response.headers);
    for await (const c of data) {
      out.promptlab ??= c.promptlab;
      if (c.usage) out.usage = [c.usage.prompt_tokens, c.usage.completion_tokens, c.usage.total_tokens];
      for (const choice of c.choices) {
        out.finish = choice.finish_reason ?? out.finish;
        if (choice.delta.content) {
          out.text += choice.delta.content;
          out.pieces++;
        }
      }
    }
    return out;
  }

  async helper() {
    const stream = this.chat.stream(this.params);
    stream.on("content", (_, snapshot) => (this.seen.text = snapshot));
    return this.told(await stream.finalChatCompletion());
  }

  async leave() {
    const stream = await this.chat.create({ ...this.params, stream: true });
    for await (const c of stream) {
      const text = c.choices[0]?.delta.content;
      if (text) return { text }; // leaving the loop ends the request
    }
    return { text: "" };
  }

  // tools asks, answers every call, and asks again with the client's own message in the history.
  async tools() {
    const { stream, ...params } = this.params;
    const first = stream ? await this.chat.stream(params).finalChatCompletion() : await this.chat.create(params);
    const m = first.choices[0].message;
    const results = m.tool_calls.map((t) => ({ role: "tool", tool_call_id: t.id, content: this.order.answers[t.function.name] }));
    const last = await this.chat.create({ ...params, messages: [...params.messages, m, ...results] });
    return { ...this.told(last), tools: this.told(first).tools, first: first.choices[0].finish_reason };
  }
}

class WithResponses extends WithOpenAI {
  told(r) {
    const u = r.usage;
    return {
      id: r.id,
      model: r.model,
      text: r.output_text,
      finish: r.status,
      tools: r.output.filter((o) => o.type === "function_call").map((o) => [o.call_id, o.name, o.arguments]),
      usage: [u.input_tokens, u.output_tokens, u.total_tokens, u.input_tokens_details.cached_tokens],
      promptlab: r.promptlab,
    };
  }

  async create() {
    const { data, response } = await this.client.responses.create(this.params).withResponse();
    return { ...this.told(data), headers: Object.fromEntries(response.headers) };
  }

  async shaped() {
    const r = await this.client.responses.parse(this.params);
    return { ...this.told(r), parsed: r.output_parsed };
  }

  async stream() {
    const out = (this.seen = { text: "", pieces: 0 });
    const { data, response } = await this.client.responses.create({ ...this.params, stream: true }).withResponse();
    let last;
    for await (const e of data) {
      if (e.type === "response.output_text.delta") {
        out.text += e.delta;
        out.pieces++;
      }
      last = e;
    }
    // output_text is made by the client of whole answers only
    const text = last.response.output.flatMap((o) => (o.content ?? []).map((c) => c.text ?? "")).join("");
    return { ...out, ...this.told(last.response), text, headers: Object.fromEntries(response.headers) };
  }

  async helper() {
    return this.told(await this.client.responses.stream(this.params).finalResponse());
  }

  async leave() {
    const stream = await this.client.responses.create({ ...this.params, stream: true });
    for await (const e of stream) if (e.type === "response.output_text.delta") return { text: e.delta };
    return { text: "" };
  }

  async tools() {
    const { stream, ...params } = this.params;
    const first = stream ? await this.client.responses.stream(params).finalResponse() : await this.client.responses.create(params);
    const results = first.output
      .filter((o) => o.type === "function_call")
      .map((o) => ({ type: "function_call_output", call_id: o.call_id, output: this.order.answers[o.name] }));
    const last = await this.client.responses.create({ ...params, input: [...params.input, ...first.output, ...results] });
    return { ...this.told(last), tools: this.told(first).tools, first: first.status };
  }
}

class WithAnthropic {
  constructor(order) {
    this.order = order;
    this.params = order.params ?? {};
    this.seen = {};
    this.client = new Anthropic({ baseURL: order.base_url, apiKey: order.key, defaultHeaders: order.headers });
    this.chat = this.client.messages;
  }

  async models() {
    const ids = [];
    for await (const m of this.client.models.list()) ids.push(m.id);
    return { ids };
  }

  async model() {
    return { ids: [(await this.client.models.retrieve(this.params.id)).id] };
  }

  told(m) {
    return {
      id: m.id,
      model: m.model,
      text: m.content.map((b) => (b.type === "text" ? b.text : "")).join(""),
      finish: m.stop_reason,
      tools: m.content.filter((b) => b.type === "tool_use").map((b) => [b.id, b.name, JSON.stringify(b.input)]),
      usage: [m.usage.input_tokens, m.usage.output_tokens, m.usage.cache_read_input_tokens],
      promptlab: m.promptlab,
    };
  }

  async create() {
    const { data, response } = await this.chat.create(this.params).withResponse();
    return { ...this.told(data), headers: Object.fromEntries(response.headers) };
  }

  async shaped() {
    const told = this.told(await this.chat.create(this.params));
    return { ...told, parsed: JSON.parse(told.text) };
  }

  async stream() {
    const out = (this.seen = { text: "", pieces: 0 });
    const { data, response } = await this.chat.stream(this.params).withResponse();
    for await (const e of data) {
      if (e.type === "content_block_delta" && e.delta.type === "text_delta") {
        out.text += e.delta.text;
        out.pieces++;
      }
    }
    return { ...out, ...this.told(await data.finalMessage()), headers: Object.fromEntries(response.headers) };
  }

  async leave() {
    const stream = await this.chat.create({ ...this.params, stream: true });
    for await (const e of stream) if (e.type === "content_block_delta") return { text: e.delta.text };
    return { text: "" };
  }

  async tools() {
    const { stream, ...params } = this.params;
    const first = stream ? await this.chat.stream(params).finalMessage() : await this.chat.create(params);
    const results = first.content
      .filter((b) => b.type === "tool_use")
      .map((b) => ({ type: "tool_result", tool_use_id: b.id, content: this.order.answers[b.name] }));
    const history = [{ role: "assistant", content: first.content }, { role: "user", content: results }];
    const last = await this.chat.create({ ...params, messages: [...params.messages, ...history] });
    return { ...this.told(last), tools: this.told(first).tools, first: first.stop_reason };
  }
}

function failure(e, seen) {
  const error = e.error?.error ?? e.error ?? {};
  return {
    ...seen,
    error: e.constructor.name,
    status: e.status ?? null,
    code: e.code ?? error.code ?? null,
    message: error.message ?? e.message,
    request: e.requestID ?? null,
  };
}

const clients = { openai: WithOpenAI, responses: WithResponses, anthropic: WithAnthropic };
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const client = new clients[order.sdk](order);
  let answer;
  try {
    answer = await client[order.do]();
  } catch (e) {
    if (!(e instanceof OpenAIError || e instanceof AnthropicError)) throw e;
    answer = failure(e, client.seen);
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
